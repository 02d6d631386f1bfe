// What the shared scan loads next, and what goes for it: pure functions of where the scans are and
// of what is in memory.
//
// What a scan waits for comes first, in the order in which the scans began to wait. Then the scan
// with least before it is read ahead for. Chunks take at most a quarter of the memory over the
// number of places at which scans are, so that the chunks that scans are in leave room for those on
// their way. The chunks of a scan that waits for the next one nevertheless are doubled, up to half
// the memory, until memory is short: slow scans take little, and a fast one beside them reads whole
// buckets.
//
// What goes is what will be wanted last, and never what a scan is in. A scan that falls behind
// keeps its share of what lies before it for a while: those in front, who would push it out, read
// some records for themselves meanwhile, and then insist. So a scan that only waits for a processor
// is not left alone with the device, and one that stands still costs the others its own chunk.
//
// Nothing here allocates, but for victims beyond the capacity of their row.
//
// Thread safety: stateless. It owns nothing; spans are valid during a call.
// Invariants: scans come in order of position, chunks in order of key and apart from one another; a
// chunk that is held is never a victim.
#ifndef ENGINE_RACE_SCAN_SCAN_PLANNER_H_
#define ENGINE_RACE_SCAN_SCAN_PLANNER_H_

#include <cstdint>
#include <span>
#include <vector>

namespace engine_race {

// A scan that wants the keys [pos, last].
struct ScanView {
  uint64_t pos = 0;
  uint64_t last = 0;
  // Chunks cut at an earlier ticket may lack writes that it must see.
  uint64_t begin = 0;
  // Chunks that serve it are in memory or on their way for [pos, frontier), or, when `covered`, for
  // all that it wants.
  uint64_t frontier = 0;
  bool covered = false;
  // Smaller for one that has waited longer; 0 for one that does not wait.
  uint64_t wait_number = 0;
  // It has waited long enough for those behind it.
  bool insists = false;
  // Its chunks have grown so often, because it had to wait for the next one.
  uint32_t doublings = 0;
};

struct ChunkView {
  uint64_t first_key = 0;
  uint64_t last_key = 0;
  uint32_t buffer_count = 0;
  // A scan is in it, or it is being read.
  bool held = false;
};

// Scans in ascending order of pos, chunks in ascending order of keys, which do not overlap.
struct ScanSituation {
  std::span<const ScanView> scans;
  std::span<const ChunkView> chunks;
  // What all chunks together may take.
  uint32_t limit_buffers = 0;
};

// A chunk to be loaded: with `key` in it and nothing beyond `last`, cut at `begin` or later.
struct NextLoad {
  uint64_t key = 0;
  uint64_t last = 0;
  uint64_t begin = 0;
  uint32_t max_buffers = 0;
  // Some scan waits for it, the first one with this number. Otherwise it is read ahead, with so
  // much before it already.
  bool waited_for = false;
  uint64_t wait_number = 0;
  bool insists = false;
  uint32_t ahead_buffers = 0;
};

// At how many places scans are. Those between which all is loaded are at one place.
uint32_t CountConvoys(const ScanSituation& situation);

// What a chunk may take before it is doubled.
uint32_t ChunkBuffers(const ScanSituation& situation);

// False when nothing is to be loaded now.
bool ChooseLoad(const ScanSituation& situation, NextLoad* load);

// A chunk that may go.
struct Victim {
  enum Kind : uint32_t {
    kNear,       // a scan comes to it when it has been through `distance` buffers of its share
    kFar,        // the same beyond the share of the scan's place
    kBehindGap,  // a scan wants it, but not all before it is loaded; `distance` is its first key
    kUnwanted,   // no scan wants it; likewise
  };
  uint32_t chunk = 0;  // its place in the situation's row
  Kind kind = kNear;
  uint64_t distance = 0;
};

// All chunks that may go, in the order in which they would. The next pass finds the first keys: so
// of what nobody wants the highest keys go first. Then goes what scans come to last.
void RankVictims(const ScanSituation& situation, std::vector<Victim>* victims);

// Which of them go for `load`: so many that `missing_buffers` come free, and at least
// `least_count`. What is near goes only for a scan that insists, and for a chunk read ahead nothing
// that is wanted before it. False, with none chosen, when there are not enough.
bool ChooseVictims(const ScanSituation& situation, const NextLoad& load, uint64_t missing_buffers,
                   size_t least_count, std::vector<Victim>* victims);

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SCAN_PLANNER_H_

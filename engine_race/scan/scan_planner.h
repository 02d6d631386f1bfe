// The planner of the shared scan: which chunk to load next, and which chunks to evict for it. Its
// functions ask where the scans are and what is in memory, and keep no state.
//
// Chunks that scans wait for come first, in the order in which the scans began to wait. Then the
// planner reads ahead for the scan that has the least loaded before it. Scans between which all is
// loaded form a convoy, and convoys divide the memory into equal shares. A chunk takes at most a
// quarter of a share, so that chunks in use leave room for those on their way. The chunks of a scan
// that has to wait nevertheless are doubled, up to half the memory, until memory is short. So slow
// scans take little, and a fast scan beside them reads whole buckets.
//
// The victim is the chunk that will be wanted last, and never one that a scan is in. A scan that
// falls behind keeps its share of the chunks before it for a while. Scans in front, which would
// evict those chunks, read some records for themselves meanwhile, and then insist. So a scan that
// only waits for a processor stays in the shared pass. A scan that stands still costs the others
// only its own chunk.
//
// Victims are found in the order of eviction, and the search stops when there are enough. So a plan
// looks at few chunks. Nothing allocates while `reaches` has room for all scans and the victims'
// vector for all chunks.
//
// Thread safety: stateless, but calls at the same time need `reaches` of their own. It owns
// nothing; spans are valid during a call. Invariants: scans come in order of position. A chunk that
// is held is never a victim.
#ifndef ENGINE_RACE_SCAN_SCAN_PLANNER_H_
#define ENGINE_RACE_SCAN_SCAN_PLANNER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/scan/chunk_map.h"

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
  // How often its chunks have grown, because it had to wait for the next one.
  uint32_t doublings = 0;
};

// Of ForEachVictim: the chunks from one scan up to the next. [begin, gap) are on its way, and
// [gap, unwanted) lie behind a gap. No scan wants [unwanted, end).
struct ScanReach {
  ChunkMap::Iterator begin;
  ChunkMap::Iterator gap;
  ChunkMap::Iterator unwanted;
  ChunkMap::Iterator end;
  ChunkMap::Iterator convoy_begin;
  // On the way are the keys below `way_end`, or all if `is_way_to_last_key`.
  uint64_t way_end = 0;
  bool is_way_to_last_key = false;
  uint64_t wanted_last = 0;  // by any scan up to this one
  // For the last chunk on the way that was not visited: the buffers from `begin` up to it, and
  // those from `convoy_begin` through it.
  uint64_t distance = 0;
  uint64_t convoy_buffers = 0;
};

// Scans in ascending order of pos. A chunk with pins is held: a scan is in it, or it is being read.
struct ScanSituation {
  std::span<const ScanView> scans;
  const ChunkMap& chunks;
  // The buffers that all chunks together may take.
  uint32_t limit_buffers = 0;
  // Memory for the planner's work, with room for each scan.
  std::vector<ScanReach>* reaches = nullptr;
};

// A chunk to be loaded: with `key` in it and nothing beyond `last`, cut at `begin` or later.
struct NextLoad {
  uint64_t key = 0;
  uint64_t last = 0;
  uint64_t begin = 0;
  uint32_t max_buffers = 0;
  // A scan waits for it; `wait_number` is the first such scan's. Otherwise it is read ahead, with
  // `ahead_buffers` before it already.
  bool waited_for = false;
  uint64_t wait_number = 0;
  bool insists = false;
  uint32_t ahead_buffers = 0;
};

// The number of convoys.
uint32_t CountConvoys(const ScanSituation& situation);

// The buffers that a chunk may take before it is doubled.
uint32_t ChunkBuffers(const ScanSituation& situation);

// False when nothing is to be loaded now.
bool ChooseLoad(const ScanSituation& situation, NextLoad* load);

// A chunk that may be evicted.
struct Victim {
  enum Kind : uint32_t {
    kNear,       // a scan comes to it when it has been through `distance` buffers of its share
    kFar,        // likewise, but beyond the share of the scan's convoy
    kBehindGap,  // a scan wants it, but not all before it is loaded; `distance` is its first key
    kUnwanted,   // no scan wants it; likewise
  };
  Chunk* chunk = nullptr;
  Kind kind = kNear;
  uint64_t distance = 0;
};

// Calls `visit` with the chunks that may be evicted, in the order of eviction, until it returns
// false. The next pass begins with the first keys, so of the unwanted chunks the highest keys are
// evicted first. Then come the chunks that scans come to last.
void ForEachVictim(const ScanSituation& situation, FunctionRef<bool(const Victim&)> visit);

// Chooses the victims for `load`: at least `least_count`, and enough to free `missing_buffers`.
// Near chunks are victims only for a scan that insists. For a chunk read ahead, no chunk that is
// wanted before it is a victim. False, with none chosen, when there are not enough.
bool ChooseVictims(const ScanSituation& situation, const NextLoad& load, uint64_t missing_buffers,
                   size_t least_count, std::vector<Victim>* victims);

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SCAN_PLANNER_H_

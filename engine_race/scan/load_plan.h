// Which reads bring the values of some records, and where each value will lie.
//
// A plan deals in positions: position p is the p-th piece of kValueBytes in a row of buffers.
// Neighbouring slots become one read, and small gaps between them are read along. No read crosses a
// multiple of kBufferValues, so the positions can be laid out over separate buffers afterwards.
// No read crosses the end of a segment, where the slots of a bucket may go on in another file.
// Values that are not in the value log yet get a position but no read.
//
// Not synchronised; a planner keeps scratch memory between calls.
// Invariant: a plan has one position for each entry, and reads share no position.
#ifndef ENGINE_RACE_SCAN_LOAD_PLAN_H_
#define ENGINE_RACE_SCAN_LOAD_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/index/index.h"
#include "engine_race/log/run_slots.h"

namespace engine_race {

// The memory of scans comes in buffers of this size.
inline constexpr uint32_t kBufferBytes = 256 * 1024;
inline constexpr uint32_t kBufferValues = kBufferBytes / kValueBytes;
inline uint32_t BuffersFor(uint64_t position_count) {
  return static_cast<uint32_t>((position_count + kBufferValues - 1) / kBufferValues);
}
// Where position `at` lies when the positions are laid out over these buffers.
inline uint32_t PositionIn(std::span<const uint32_t> buffers, uint32_t at) {
  return buffers[at / kBufferValues] * kBufferValues + at % kBufferValues;
}
// The records that one reading of a scan for itself brings: into one buffer, and at most.
inline constexpr uint32_t kWindowRecords = kBufferValues;
inline constexpr uint32_t kWalkRecords = 1024;

// Of a position: its value is to be copied out of staging first.
inline constexpr uint32_t kStagedPosition = uint32_t{1} << 31;
// Of a position: its value came from a frame, where only verified values are.
inline constexpr uint32_t kVerifiedPosition = uint32_t{1} << 30;
inline constexpr uint32_t kPositionFlags = kStagedPosition | kVerifiedPosition;
// Instead of a position: the value could not be read, or failed its check.
inline constexpr uint32_t kUnreadablePosition = ~uint32_t{0};
inline constexpr uint32_t kCorruptPosition = ~uint32_t{0} - 1;
// No position yet.
inline constexpr uint32_t kNoPosition = ~uint32_t{0} - 2;
inline constexpr uint32_t kMaxPositions = kVerifiedPosition;

struct PlannedRead {
  uint64_t first_slot = 0;
  uint32_t bucket = 0;
  uint32_t slot_count = 0;
  uint32_t first_position = 0;
};

struct LoadPlan {
  // The position of each entry, in the entries' order. An entry whose value is there already has
  // one before it is added.
  std::vector<uint32_t> positions;
  std::vector<PlannedRead> reads;
  uint32_t position_count = 0;
  size_t entry_count = 0;  // that were added

  void Clear() {
    positions.clear();
    reads.clear();
    position_count = 0;
    entry_count = 0;
  }
};

class LoadPlanner {
 public:
  // Adds the next entries, which are of one bucket. Those without a position get one. Slots that
  // are not logged are staged. At most spare_positions are spent on gaps.
  void Add(uint32_t bucket, std::span<const IndexEntry> entries, const LoggedSlots& logged,
           uint32_t spare_positions, LoadPlan* plan);

 private:
  // Fills order_ with (slot << 32 | index in `entries`) of the logged entries that have no
  // position, by slot.
  void SortBySlot(std::span<const IndexEntry> entries, std::span<const uint32_t> positions,
                  const LoggedSlots& logged);
  // Cuts a run of slots into reads that end with a buffer or a segment.
  void EmitRun(uint32_t bucket, uint64_t first_slot, uint64_t slot_count, LoadPlan* plan);

  std::vector<uint64_t> order_;
  std::vector<uint32_t> by_slot_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_LOAD_PLAN_H_

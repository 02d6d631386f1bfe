// Which reads bring the values of some records, and where each value will lie.
//
// A plan deals in positions, see BufferLayout. Neighbouring slots become one read, and so do slots
// that share a block. Small gaps between them are read along. No read crosses the end of a buffer,
// so the positions can be laid out over separate buffers afterwards. No read crosses the end of a
// row, where the slots of a bucket may go on in another file. Values that are not in the value
// log yet get positions but no read.
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
#include "engine_race/log/value_read.h"
#include "engine_race/scan/buffer_layout.h"

namespace engine_race {

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

struct PlannedRead : ValueRead {
  // Of the blocks. The first slot may begin behind it.
  uint32_t first_position = 0;
};

struct LoadPlan {
  // The position of each entry, in the entries' order. An entry whose value is there already has
  // one before it is added.
  std::vector<uint32_t> positions;
  std::vector<PlannedRead> reads;
  uint32_t position_count = 0;
  size_t entry_count = 0;  // that were added

  // The positions of a value that is copied.
  uint32_t TakeSlot(const BufferLayout& layout) {
    return Take(layout, layout.slot_positions(), /*step=*/1);
  }
  // Those of a read, which has no more blocks than a buffer.
  uint32_t TakeBlocks(const BufferLayout& layout, uint32_t count) {
    return Take(layout, count, layout.block_positions());
  }

  void Clear() {
    positions.clear();
    reads.clear();
    position_count = 0;
    entry_count = 0;
  }

 private:
  uint32_t Take(const BufferLayout& layout, uint32_t count, uint32_t step);
};

class LoadPlanner {
 public:
  explicit LoadPlanner(const BufferLayout& layout) : layout_(layout) {}

  // Adds the next entries, which are of one bucket. Those without a position get one. Slots that
  // are not logged are staged. Gaps are read along only if `later_count` entries more will find
  // room within max_positions, each by itself. Returns how many of them are staged.
  size_t Add(uint32_t bucket, std::span<const IndexEntry> entries, const LoggedSlots& logged,
             uint64_t max_positions, size_t later_count, LoadPlan* plan);

 private:
  // Of the read that was planned last, as BufferLayout::BlocksOf has them.
  struct Run {
    uint64_t begin_offset = 0;
    uint64_t end_offset = 0;
    uint64_t most_end_offset = 0;  // with the rest of the buffer
    uint64_t row = 0;
  };

  // Fills order_ with (slot << 32 | index in `entries`) of the logged entries that have no
  // position, by slot.
  void SortBySlot(std::span<const IndexEntry> entries, std::span<const uint32_t> positions,
                  const LoggedSlots& logged);
  // Has the last read bring `slot`, too. False if it cannot.
  bool Extend(uint64_t slot, uint64_t max_positions, size_t later_count, Run* run,
              LoadPlan* plan) const;
  void Begin(uint32_t bucket, uint64_t slot, Run* run, LoadPlan* plan) const;

  const BufferLayout layout_;
  std::vector<uint64_t> order_;
  std::vector<uint32_t> by_slot_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_LOAD_PLAN_H_

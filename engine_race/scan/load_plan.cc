#include "engine_race/scan/load_plan.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/base/round_up.h"

namespace engine_race {

namespace {

// Slots spread at most this thin are put in order through a table, in linear time.
constexpr uint64_t kTableSlotsPerEntry = 8;

constexpr uint32_t kNoEntry = ~uint32_t{0};

}  // namespace

uint32_t LoadPlan::Take(const BufferLayout& layout, uint32_t count, uint32_t step) {
  const uint32_t buffer_positions = layout.buffer_positions();
  ENGINE_RACE_ASSERT(count <= buffer_positions);
  const auto in_step = static_cast<uint32_t>(RoundUp(position_count, step));
  const uint32_t in_buffer = in_step % buffer_positions;
  const uint32_t first =
      in_buffer + count <= buffer_positions ? in_step : in_step - in_buffer + buffer_positions;
  ENGINE_RACE_ASSERT(first + count <= kMaxPositions);
  position_count = first + count;
  return first;
}

void LoadPlanner::SortBySlot(std::span<const IndexEntry> entries,
                             std::span<const uint32_t> positions, const LoggedSlots& logged) {
  order_.clear();
  uint64_t low = ~uint64_t{0};
  uint64_t high = 0;
  for (uint32_t i = 0; i < entries.size(); ++i) {
    if (positions[i] != kNoPosition) continue;
    const uint64_t slot = entries[i].ref.slot();
    if (!logged.Contains(slot)) continue;
    low = std::min(low, slot);
    high = std::max(high, slot);
    order_.push_back((slot << 32) | i);
  }
  if (order_.empty()) return;
  const uint64_t span_slots = high - low + 1;
  if (span_slots > kTableSlotsPerEntry * order_.size()) {
    std::sort(order_.begin(), order_.end());
    return;
  }
  by_slot_.assign(span_slots, kNoEntry);
  for (const uint64_t word : order_) by_slot_[(word >> 32) - low] = static_cast<uint32_t>(word);
  order_.clear();
  for (uint64_t at = 0; at < span_slots; ++at) {
    if (by_slot_[at] != kNoEntry) order_.push_back(((low + at) << 32) | by_slot_[at]);
  }
}

bool LoadPlanner::Extend(uint64_t slot, uint64_t max_positions, size_t later_count, Run* run,
                         LoadPlan* plan) const {
  if (layout_.RowOf(slot) != run->row) return false;
  const Blocks blocks = layout_.BlocksOf(slot);
  const uint64_t end_offset = blocks.offset + blocks.size_bytes;
  const uint64_t gap_bytes = std::max(blocks.offset, run->end_offset) - run->end_offset;
  if (gap_bytes > BufferLayout::kMaxGapBytes) return false;
  PlannedRead& read = plan->reads.back();
  const bool fits = end_offset <= run->most_end_offset;
  // The next buffer begins with the slot: it takes no more reads than if the gap were read.
  if (!fits && gap_bytes == 0) return false;
  const uint64_t begin_position =
      fits ? read.first_position : RoundUp(plan->position_count, layout_.buffer_positions());
  const uint64_t end_position =
      begin_position +
      layout_.PositionsIn(fits ? end_offset - run->begin_offset : blocks.size_bytes);
  if (gap_bytes > 0 && layout_.EndOfReads(end_position, later_count) > max_positions) return false;
  if (!fits) {
    plan->position_count = static_cast<uint32_t>(begin_position);
    return false;
  }
  plan->position_count = static_cast<uint32_t>(end_position);
  read.slot_count = static_cast<uint32_t>(slot - read.first_slot) + 1;
  run->end_offset = end_offset;
  return true;
}

void LoadPlanner::Begin(uint32_t bucket, uint64_t slot, Run* run, LoadPlan* plan) const {
  const Blocks blocks = layout_.BlocksOf(slot);
  const auto count = static_cast<uint32_t>(layout_.PositionsIn(blocks.size_bytes));
  const uint32_t first_position = plan->TakeBlocks(layout_, count);
  plan->reads.push_back({{slot, bucket, 1}, first_position});
  const uint32_t room = layout_.buffer_positions() - first_position % layout_.buffer_positions();
  *run = {blocks.offset, blocks.offset + blocks.size_bytes, blocks.offset + layout_.OffsetOf(room),
          layout_.RowOf(slot)};
}

size_t LoadPlanner::Add(uint32_t bucket, std::span<const IndexEntry> entries,
                        const LoggedSlots& logged, uint64_t max_positions, size_t later_count,
                        LoadPlan* plan) {
  const size_t first_entry = plan->entry_count;
  plan->entry_count += entries.size();
  if (plan->positions.size() < plan->entry_count) {
    plan->positions.resize(plan->entry_count, kNoPosition);
  }
  const std::span<uint32_t> positions =
      std::span(plan->positions).subspan(first_entry, entries.size());
  SortBySlot(entries, positions, logged);
  later_count += entries.size();
  Run run;
  bool has_run = false;
  for (const uint64_t word : order_) {
    const uint64_t slot = word >> 32;
    const uint64_t offset = layout_.SlotOffset(slot);
    --later_count;
    if (has_run && offset + layout_.slot_bytes() <= run.end_offset) {
      // The blocks that are planned contain the slot. With small values that is the usual case.
      PlannedRead& read = plan->reads.back();
      read.slot_count = static_cast<uint32_t>(slot - read.first_slot) + 1;
    } else if (!has_run || !Extend(slot, max_positions, later_count, &run, plan)) {
      Begin(bucket, slot, &run, plan);
      has_run = true;
    }
    positions[static_cast<uint32_t>(word)] =
        plan->reads.back().first_position +
        static_cast<uint32_t>(layout_.PositionsIn(offset - run.begin_offset));
  }
  if (order_.size() == entries.size()) return 0;
  size_t staged_count = 0;
  // Whether a slot is logged may have changed since, where it was given to another record.
  for (uint32_t& position : positions) {
    if (position != kNoPosition) continue;
    position = plan->TakeSlot(layout_) | kStagedPosition;
    ++staged_count;
  }
  return staged_count;
}

}  // namespace engine_race

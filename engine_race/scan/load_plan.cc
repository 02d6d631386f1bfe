#include "engine_race/scan/load_plan.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/log/segment_format.h"

namespace engine_race {

namespace {

// A gap of this many slots costs about as long to read along as another request would.
constexpr uint64_t kMaxGapSlots = 8;

// Slots spread at most this thin are put in order through a table, in linear time.
constexpr uint64_t kTableSlotsPerEntry = 8;

constexpr uint32_t kNoEntry = ~uint32_t{0};

}  // namespace

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

void LoadPlanner::EmitRun(uint32_t bucket, uint64_t first_slot, uint64_t slot_count,
                          LoadPlan* plan) {
  while (slot_count > 0) {
    const uint64_t room =
        std::min<uint64_t>(kBufferValues - plan->position_count % kBufferValues,
                           format::kSegmentRecords - first_slot % format::kSegmentRecords);
    const uint32_t count = static_cast<uint32_t>(std::min(room, slot_count));
    ENGINE_RACE_ASSERT(count > 0 && plan->position_count + count <= kMaxPositions);
    plan->reads.push_back({first_slot, bucket, count, plan->position_count});
    plan->position_count += count;
    first_slot += count;
    slot_count -= count;
  }
}

void LoadPlanner::Add(uint32_t bucket, std::span<const IndexEntry> entries,
                      const LoggedSlots& logged, uint32_t spare_positions, LoadPlan* plan) {
  const size_t first_entry = plan->entry_count;
  plan->entry_count += entries.size();
  if (plan->positions.size() < plan->entry_count) {
    plan->positions.resize(plan->entry_count, kNoPosition);
  }
  const std::span<uint32_t> positions =
      std::span(plan->positions).subspan(first_entry, entries.size());
  SortBySlot(entries, positions, logged);
  uint64_t run_begin = 0;
  uint64_t run_end = 0;
  for (const uint64_t word : order_) {
    const uint64_t slot = word >> 32;
    const uint64_t gap = slot - run_end;
    if (run_end > run_begin && gap <= kMaxGapSlots && gap <= spare_positions) {
      spare_positions -= static_cast<uint32_t>(gap);
    } else {
      EmitRun(bucket, run_begin, run_end - run_begin, plan);
      run_begin = slot;
    }
    run_end = slot + 1;
    positions[static_cast<uint32_t>(word)] =
        plan->position_count + static_cast<uint32_t>(slot - run_begin);
  }
  EmitRun(bucket, run_begin, run_end - run_begin, plan);
  if (order_.size() == entries.size()) return;
  // Whether a slot is logged may have changed since, where it was given to another record.
  for (uint32_t& position : positions) {
    if (position == kNoPosition) position = plan->position_count++ | kStagedPosition;
  }
}

}  // namespace engine_race

#include "engine_race/log/bucket.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {

void Bucket::Wait(std::unique_lock<std::mutex>* lock) {
  ENGINE_RACE_ASSERT(lock->owns_lock() && lock->mutex() == &mutex);
  ++waiting;
  changed.wait(*lock);
  --waiting;
  waking = false;
}

void Bucket::AwaitRelease(std::unique_lock<std::mutex>* lock, bool unclaimed) {
  ENGINE_RACE_ASSERT(lock->owns_lock() && lock->mutex() == &mutex);
  while (held || (unclaimed && claimed)) WaitForRelease(lock);
}

void Bucket::WaitForRelease(std::unique_lock<std::mutex>* lock) {
  ++awaiting_release;
  written.wait(*lock);
  --awaiting_release;
}

void Bucket::WakeAwaitingRelease() noexcept {
  if (awaiting_release != 0) written.notify_all();
}

void Bucket::Release() {
  ENGINE_RACE_ASSERT(held);
  held = false;
  WakeAwaitingRelease();
  WakeOneIfRoom();
}

bool Bucket::FindIdleGroup(FullGroup* full) const {
  for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
    const Lane& lane = LaneOf(kind);
    if (lane.FindIdleFullGroup(record_count, &full->group)) {
      full->kind = kind;
      full->place = lane.PlaceOf(full->group * lane.group_records());
      return true;
    }
  }
  return false;
}

uint64_t Bucket::UsedRowCount() const {
  return table.rows().size() - free_rows.size() - bare_rows.size() - leaving_rows.size();
}

bool Bucket::Adopt(const Geometry& geometry, const BucketState& state) {
  // Staging::ReadCounts calls other counts damaged.
  ENGINE_RACE_ASSERT(state.synced_watermark <= state.record_count);
  if (!InitLanes(geometry, state, &values, &keys)) return false;
  record_count = state.record_count;
  synced_watermark = state.synced_watermark;
  // Release pairs with the acquire in LoggedValueWatermark.
  published_value_watermark.store(state.LoggedValueCount(), std::memory_order_release);
  return true;
}

// Readers may have the runs: these stay where they are.
void Bucket::AdoptTable(SlotTable adopted) {
  const std::vector<Row>& rows = adopted.rows();
  if (adopted.has_rows()) {
    if (owned_run_slots == nullptr) {
      owned_run_slots = std::make_unique<RunSlots>(adopted.row_records());
    }
    for (uint32_t row = 0; row < rows.size(); ++row) owned_run_slots->Set(row, rows[row]);
    // Release, both: pair with the acquires in SlotEnd and in Logged.
    published_row_end.store(rows.size(), std::memory_order_release);
    run_slots.store(owned_run_slots.get(), std::memory_order_release);
  }
  table = std::move(adopted);
}

// A group is written from the synced watermark on, so its staged beginning is not read again.
bool Bucket::IsStagingIdle() const {
  return !held && record_count == synced_watermark && values.IsIdle() && keys.IsIdle();
}

SlotBits Bucket::GapsOf(uint32_t row) const {
  const SlotBits gaps = SlotBits::First(table.row_records()) - table.rows()[row].held;
  const auto found = unreleased.find(row);
  return found == unreleased.end() ? gaps : gaps - found->second;
}

uint64_t Bucket::FoundBySlotEnd() const {
  return claimed ? std::min(synced_watermark, claimed_at) : synced_watermark;
}

void Bucket::CountGaps(uint32_t row) noexcept {
  // One slot in so many must be there to fill, unless the bucket is full.
  constexpr uint32_t kMinShare = 8;
  const Row& content = table.rows()[row];
  uint32_t count = 0;
  // A new run replaces the old one. The run of the last synced record must stay.
  if (content.kind == format::RowKind::kUsed && !content.RunReaches(FoundBySlotEnd())) {
    count = GapsOf(row).count();
    const bool is_left = count < table.row_records() / kMinShare || emptied.contains(row);
    if (!may_fill_region && is_left) count = 0;
  }
  gap_count += count;
  gap_count -= row_gaps[row];
  row_gaps[row] = count;
}

void Bucket::CountMoreGaps(uint64_t end_before) noexcept {
  const uint64_t longest = table.row_records();
  auto run = table.runs().lower_bound(end_before - std::min(end_before, longest));
  for (; run != table.runs().end() && run->first < FoundBySlotEnd(); ++run) CountGaps(run->second);
}

void Bucket::FillUnemptied() noexcept {
  for (auto next = emptied.begin(); next != emptied.end();) {
    const uint32_t row = *next++;
    const auto given_up = unreleased.find(row);
    if (given_up != unreleased.end() && (table.rows()[row].held - given_up->second).empty())
      continue;
    emptied.erase(row);
    CountGaps(row);
  }
}

void Bucket::LetFill(bool may_fill) noexcept {
  if (std::exchange(may_fill_region, may_fill) == may_fill) return;
  for (uint32_t row = 0; row < table.rows().size(); ++row) CountGaps(row);
}

}  // namespace engine_race

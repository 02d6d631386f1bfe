#include "engine_race/log/place_returner.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/row_file.h"

namespace engine_race {

PlaceReturner::PlaceReturner(LogContext* context, RowKeeper* rows)
    : context_(*context), rows_(*rows) {
  noted_.reserve(context->buckets.size());
}

void PlaceReturner::Note(uint32_t number) noexcept {
  if (std::exchange(context_.buckets[number].is_noted, true)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  noted_.push_back(number);
  is_returning_.store(true, std::memory_order_relaxed);
}

Status PlaceReturner::BeforeFlush() {
  std::vector<uint32_t> buckets;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    buckets = noted_;
    noted_.clear();
    is_returning_.store(false, std::memory_order_relaxed);
  }
  Status done;
  for (const uint32_t number : buckets) {
    Bucket& bucket = context_.buckets[number];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    Status left(Code::kBusy, {});
    // A cut may have its files copied one after the other. Acquire, as in RowMover::CanRelease.
    const bool has_cut = bucket.cut_count.load(std::memory_order_acquire) != 0;
    if (done.ok() && !has_cut) left = Guarded([&] { return Leave(number); });
    bucket.is_noted = !left.ok();
    if (left.ok()) continue;
    const std::lock_guard<std::mutex> list(mutex_);
    noted_.push_back(number);
    if (left.code() != Code::kBusy && !CanBeTriedAgain(left)) done = std::move(left);
  }
  return done;
}

// Under the bucket's lock.
Status PlaceReturner::Leave(uint32_t number) {
  std::vector<uint32_t> rows;
  leaving_.reserve(leaving_.size() + context_.buckets[number].free_rows.size());
  ENGINE_RACE_RETURN_IF_ERROR(rows_.LeaveFree(number, &rows));
  for (const uint32_t row : rows) leaving_.push_back({number, row, {}});
  return Status::Ok();
}

void PlaceReturner::AfterFlush() noexcept {
  for (const LeavingRow& each : left_) {
    Bucket& bucket = context_.buckets[each.bucket];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    context_.files.slots.table().Free(each.place);
    bucket.bare_rows.insert(bucket.leaving_rows.extract(each.row));
  }
  if (!left_.empty()) context_.files.slots.CutFreeEnds(/*exactly=*/false);
  left_.clear();
  // A row whose place is not given back stays as it is until the next opening.
  std::erase_if(leaving_, [this](LeavingRow& row) {
    return !Guarded([&] { return context_.reserve.Write([&] { return GiveBack(&row); }); }).ok();
  });
  std::swap(left_, leaving_);
  if (!left_.empty()) is_returning_.store(true, std::memory_order_relaxed);
}

// *row: where it was.
Status PlaceReturner::GiveBack(LeavingRow* row) {
  const SlotFiles& slots = context_.files.slots;
  const std::lock_guard<std::mutex> lock(context_.buckets[row->bucket].mutex);
  uint64_t number = 0;
  const bool has_place = slots.NumberOf(row->bucket, row->row, &number);
  ENGINE_RACE_ASSERT(has_place);
  ENGINE_RACE_RETURN_IF_ERROR(WriteVacantRow(context_.files, number));
  return slots.table().GiveBack(row->bucket, row->row, &row->place);
}

}  // namespace engine_race

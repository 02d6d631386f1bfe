// The calls of RowMover that give the places of free rows back.
//
// Three Settles do it, so that no flush is made for it alone. Up to the flush of the first one the
// file of rows says that the rows at the end of the bucket do not count any more. Then the places
// get vacant rows and lose their entries. Once the second one has flushed that, other rows may get
// them.
#include <algorithm>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/row_file.h"
#include "engine_race/log/row_mover.h"

namespace engine_race {

// Under the bucket's lock.
void RowMover::NoteReturning(uint32_t number) noexcept {
  if (std::exchange(context_.buckets[number].is_returning, true)) return;
  const std::lock_guard<std::mutex> list(mutex_);
  returning_.push_back(number);
  has_leaving_.store(true, std::memory_order_relaxed);
}

Status RowMover::LeaveFreeRows(std::vector<LeavingRow>* leaving) {
  std::vector<uint32_t> buckets;
  {
    const std::lock_guard<std::mutex> list(mutex_);
    buckets = returning_;
    returning_.clear();
    has_leaving_.store(false, std::memory_order_relaxed);
  }
  Status done;
  for (const uint32_t number : buckets) {
    Bucket& bucket = context_.buckets[number];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    Status left(Code::kBusy, {});
    // Readers of a cut may come to free rows.
    if (done.ok() && bucket.cut_count.load(std::memory_order_acquire) == 0) {
      left = Guarded([&] {
        std::vector<uint32_t> rows;
        leaving->reserve(leaving->size() + bucket.free_rows.size());
        ENGINE_RACE_RETURN_IF_ERROR(rows_.LeaveFree(number, &rows));
        for (const uint32_t row : rows) leaving->push_back({number, row, {}});
        return Status::Ok();
      });
    }
    bucket.is_returning = !left.ok();
    if (left.ok()) continue;
    // The next Settle tries it again.
    const std::lock_guard<std::mutex> list(mutex_);
    returning_.push_back(number);
    if (!CanBeTriedAgain(left) && left.code() != Code::kBusy && done.ok()) done = std::move(left);
  }
  return done;
}

// What left_ has was flushed.
void RowMover::FreePlaces() noexcept {
  for (const LeavingRow& each : left_) {
    Bucket& bucket = context_.buckets[each.bucket];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    context_.files.slots.table().Free(each.place);
    bucket.bare_rows.insert(bucket.leaving_rows.extract(each.row));
  }
  if (!left_.empty()) context_.files.slots.CutFreeEnds(/*exactly=*/false);
  left_.clear();
}

// A row whose place is not given back stays as it is until the next opening.
void RowMover::GiveBackPlaces(std::vector<LeavingRow> leaving) noexcept {
  const auto give_back = [&](LeavingRow* row) {
    Bucket& bucket = context_.buckets[row->bucket];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    const SlotFiles& slots = context_.files.slots;
    uint64_t number = 0;
    const bool has_place = slots.NumberOf(row->bucket, row->row, &number);
    ENGINE_RACE_ASSERT(has_place);
    ENGINE_RACE_RETURN_IF_ERROR(WriteVacantRow(context_.files, number));
    return slots.table().GiveBack(row->bucket, row->row, &row->place);
  };
  left_ = std::move(leaving);
  const auto end = std::remove_if(left_.begin(), left_.end(), [&](LeavingRow& row) {
    return !Guarded([&] { return context_.reserve.Write([&] { return give_back(&row); }); }).ok();
  });
  left_.erase(end, left_.end());
  if (!left_.empty()) has_leaving_.store(true, std::memory_order_relaxed);
}

}  // namespace engine_race

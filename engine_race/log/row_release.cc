// The calls of RowMover that give freed slots back.

#include <algorithm>
#include <iterator>
#include <list>
#include <set>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/row_mover.h"

namespace engine_race {
namespace {

// Freed slots that a thread takes to release them. Others may take the next ones meanwhile.
constexpr size_t kReleasedAtOnce = 64;

}  // namespace

// Several threads release at once: each punch takes its time, and files differ.
void RowMover::Release() noexcept {
  const uint64_t given_back_before = given_back_bytes();
  size_t left = 0;
  {
    const std::lock_guard<std::mutex> list(mutex_);
    left = unreleased_.size();
  }
  while (left > 0) {
    std::list<FreedSlots> some;
    {
      const std::lock_guard<std::mutex> list(mutex_);
      const size_t count = std::min({left, unreleased_.size(), kReleasedAtOnce});
      if (count == 0) break;
      const auto end = std::next(unreleased_.begin(), static_cast<ptrdiff_t>(count));
      some.splice(some.begin(), unreleased_, unreleased_.begin(), end);
      left -= count;
    }
    some.remove_if([this](FreedSlots& each) {
      if (ReleaseOne(each)) return true;
      if (!std::exchange(each.held, true)) {
        held_bytes_.fetch_add(BytesOf(each), std::memory_order_relaxed);
        context_.buckets[each.bucket].untried_count.fetch_sub(1, std::memory_order_relaxed);
      }
      return false;
    });
    const std::lock_guard<std::mutex> list(mutex_);
    unreleased_.splice(unreleased_.end(), some);
  }
  // There may be room again. The slots may be those of another thread.
  context_.reserve.TakeBack(/*has_released=*/given_back_bytes() != given_back_before);
}

// The rows do not say which of them were punched out. No reader comes to a free row, and no thread
// takes one while the bucket is locked.
void RowMover::ReleaseLeftovers(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  uint32_t row_count = 0;
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    if (std::exchange(bucket.leftovers_released, true) || !bucket.table.has_rows()) return;
    row_count = static_cast<uint32_t>(bucket.table.rows().size());
  }
  if (!writer_.FlushFound().ok()) return;
  const uint32_t row_records = context_.geometry().row_records();
  for (uint32_t index = 0; index < row_count && puncher_.punches(); ++index) {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    // Punching waits for all writes to the file, and looking does not.
    if (bucket.free_rows.count(index) == 0 ||
        !context_.files.slots.MayHoldValues(number, uint64_t{index} * row_records, row_records)) {
      continue;
    }
    // What is not punched out here is left to the next opening.
    puncher_.PunchValues(number, index, SlotBits::First(row_records));
    puncher_.PunchKeys(number, index);
  }
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  if (!bucket.free_rows.empty()) returner_.Note(number);
}

void RowMover::PunchGaps(uint32_t number, uint32_t least_count) noexcept {
  const uint64_t given_back_before = given_back_bytes();
  if (!Guarded([&] { return writer_.FlushFound(); }).ok()) return;
  Bucket& bucket = context_.buckets[number];
  for (uint32_t index = 0;; ++index) {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    if (index >= bucket.table.rows().size()) break;
    if (bucket.table.rows()[index].free()) continue;
    const SlotBits gaps = bucket.GapsOf(index);
    if (gaps.count() >= least_count) puncher_.PunchValues(number, index, gaps);
  }
  if (given_back_bytes() != given_back_before) context_.reserve.TakeBack(/*has_released=*/true);
}

// False: a view or a cut can come to the slots, or there is no memory. A later Release tries again.
bool RowMover::ReleaseOne(const FreedSlots& freed) noexcept {
  std::set<uint32_t> released_row;
  const auto note_row = [&] {
    released_row.insert(freed.row);
    return Status::Ok();
  };
  if (!Guarded(note_row).ok() || !CanRelease(freed)) return false;
  Bucket& bucket = context_.buckets[freed.bucket];
  if (freed.held) bucket.untried_count.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock<std::mutex> lock(bucket.mutex);
  const auto unreleased = bucket.unreleased.find(freed.row);
  ENGINE_RACE_ASSERT(unreleased != bucket.unreleased.end());
  if ((unreleased->second - freed.slots).empty()) {
    // The row holds nothing any more, and no other of its slots wait. Writers that need room wait
    // while `unreleased` has the row, so it goes from there last.
    if (bucket.table.rows()[freed.row].free()) {
      lock.unlock();
      // A free row that could not be punched out is taken again first.
      puncher_.PunchValues(freed.bucket, freed.row,
                           SlotBits::First(context_.geometry().row_records()));
      puncher_.PunchKeys(freed.bucket, freed.row);
      lock.lock();
      rows_.Release(freed.bucket, &released_row);
      returner_.Note(freed.bucket);
    }
    bucket.unreleased.erase(unreleased);
    bucket.emptied.erase(freed.row);
  } else {
    unreleased->second = unreleased->second - freed.slots;
  }
  bucket.CountGaps(freed.row);
  // For AwaitClaim: there may be room now.
  bucket.WakeAwaitingRelease();
  bucket.untried_count.fetch_sub(1, std::memory_order_relaxed);
  if (freed.held) held_bytes_.fetch_sub(BytesOf(freed), std::memory_order_relaxed);
  unreleased_bytes_.fetch_sub(BytesOf(freed), std::memory_order_relaxed);
  released_bytes_.fetch_add(BytesOf(freed), std::memory_order_relaxed);
  return true;
}

bool RowMover::CanRelease(const FreedSlots& freed) {
  Bucket& bucket = context_.buckets[freed.bucket];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  // Acquire pairs with the release in ~CutPin.
  if (bucket.cut_count.load(std::memory_order_acquire) != 0) return false;
  if (bucket.views != nullptr && bucket.views->HasViewIn(freed.first_version, freed.version)) {
    return false;
  }
  // Sequentially consistent: pairs with Bucket::ReuseCount. A reader that finds the old count after
  // its read has read before this.
  bucket.reuse_count.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

}  // namespace engine_race

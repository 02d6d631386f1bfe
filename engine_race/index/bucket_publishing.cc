// The runs that readers use without the bucket's lock: when they are shown to readers, and hidden.
// Also whether walks look at the bucket.
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "engine_race/index/bucket_index.h"

namespace engine_race {

// Lets readers use the runs without the lock, if nothing else belongs to the bucket. Only once: a
// reader of the first such runs may not have noticed yet that they are gone.
void BucketIndex::TryUnchanged() noexcept {
  if (flat_runs_ != nullptr) return;
  std::unique_ptr<const FlatRuns> runs;
  try {
    // Without the lock: no other thread moves runs meanwhile.
    runs = FlatRuns::Of(row_);
  } catch (const std::bad_alloc&) {
    // Readers take the lock.
  }
  if (runs == nullptr) return;
  const std::lock_guard lock(lock_);
  if (!HasOnlyRuns()) return;
  if (shared_ != nullptr) shared_->part_bytes().Change(runs->memory_bytes(), 0);
  first_run_ = row_.part(0).run.view();
  flat_runs_ = std::move(runs);
  // Release: pairs with the load in UnchangedRuns, whose reader uses first_run_ and flat_runs_.
  unchanged_.store(true, std::memory_order_release);
}

// Unlike flat runs, paged runs can be published again and again: the limbo keeps what readers may
// have found before.
void BucketIndex::TryPublish() noexcept {
  if (paging() == nullptr || paging()->blocks().cache() == nullptr) return;
  if (!paging()->has_paged_runs()) return;
  const std::lock_guard lock(lock_);
  // Relaxed: it changes under the lock.
  if (paged_runs_.load(std::memory_order_relaxed) != nullptr || !HasOnlyRuns()) return;
  std::unique_ptr<PagedRuns> runs;
  try {
    runs = PagedRuns::Of(row_, paging()->blocks());
  } catch (const std::bad_alloc&) {
    // Readers take the lock.
  }
  if (runs == nullptr) return;
  shared_->part_bytes().Change(runs->memory_bytes(), 0);
  // Release: pairs with the load in FindHotPaged, whose reader looks into the runs.
  paged_runs_.store(runs.release(), std::memory_order_release);
}

void BucketIndex::HidePaged() noexcept {
  // Sequentially consistent: pairs with FindHotPaged.
  std::unique_ptr<PagedRuns> hidden(paged_runs_.exchange(nullptr, std::memory_order_seq_cst));
  shared_->part_bytes().Change(0, hidden->memory_bytes());
  paging()->limbo().Retire(std::move(hidden));
}

void BucketIndex::NoteHeld() noexcept {
  if (shared_ == nullptr || shared_->first_bucket() == nullptr) return;
  shared_->held().Set(static_cast<uint32_t>(this - shared_->first_bucket()));
}

void BucketIndex::NoteIfEmpty() noexcept {
  if (shared_ == nullptr || shared_->first_bucket() == nullptr) return;
  if (damaged_ || unread_ || may_be_hidden_ || !IsEmpty()) return;
  shared_->held().Clear(static_cast<uint32_t>(this - shared_->first_bucket()));
}

bool BucketIndex::IsEmpty() const {
  for (size_t i = 0; i < row_.size(); ++i) {
    const Part& part = row_.part(i);
    if (part.run.count() > 0 || part.is_paged() || part.delta.count() > 0 ||
        part.history != nullptr) {
      return false;
    }
  }
  return true;
}

bool BucketIndex::HasOnlyRuns() const {
  // Readers must look at the flags of a damaged bucket, and of one that may be hidden from older
  // views. Records of an unread bucket are acknowledged before they are added.
  if (damaged_ || may_be_hidden_ || unread_) return false;
  for (size_t i = 0; i < row_.size(); ++i) {
    const Part& part = row_.part(i);
    if (part.delta.count() > 0 || part.history != nullptr) return false;
  }
  return true;
}

}  // namespace engine_race

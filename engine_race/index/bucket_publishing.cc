// The runs that readers use without the bucket's lock: when they are shown to readers, and hidden.
// Also whether walks look at the bucket.
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "engine_race/index/bucket_index.h"

namespace engine_race {

void BucketIndex::TryPublish() noexcept {
  if (shared_ == nullptr) return;
  const std::lock_guard lock(lock_);
  // Relaxed: it changes under the lock.
  if (published_.load(std::memory_order_relaxed) != nullptr || !HasOnlyRuns()) return;
  std::unique_ptr<PublishedRuns> runs;
  try {
    runs = PublishedRuns::Of(row_, Access(nullptr).frames, &shared_->limbo());
  } catch (const std::bad_alloc&) {
    // Readers take the lock.
  }
  if (runs == nullptr) return;
  shared_->part_bytes().Change(runs->memory_bytes(), 0);
  // Release: pairs with the load in published(), whose reader looks into the runs.
  published_.store(runs.release(), std::memory_order_release);
}

void BucketIndex::HidePublished() noexcept {
  // Sequentially consistent: pairs with published().
  std::unique_ptr<PublishedRuns> hidden(published_.exchange(nullptr, std::memory_order_seq_cst));
  shared_->part_bytes().Change(0, hidden->memory_bytes());
  // The lock is held.
  shared_->limbo().Keep(std::move(hidden));
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

#include "engine_race/index/bucket_shared.h"

#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/paging.h"

namespace engine_race {

BucketShared::Work BucketShared::work() const {
  // Relaxed: statistics.
  return {merged_records_.load(std::memory_order_relaxed),
          swept_records_.load(std::memory_order_relaxed)};
}

void BucketShared::Add(SweepLink* link) noexcept {
  const std::lock_guard lock(mutex_);
  ENGINE_RACE_ASSERT(link->bucket != nullptr);
  if (!link->is_listed()) link->next = std::exchange(first_, link);
  // Also if the bucket was listed already: the caller looks at the views after this call.
  views_->NotePinned();
}

void BucketShared::RequestSweep() noexcept {
  // Sequentially consistent, as the exchange in Sweep: a sweep that takes the request finds that
  // the view has gone which asked for it.
  sweep_is_due_.store(true);
  if (paging_ != nullptr) paging_->Wake();
}

SweepLink* BucketShared::Unlist(SweepLink** left) noexcept {
  if (*left == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  SweepLink* const link = *left;
  ENGINE_RACE_ASSERT(link->is_listed());
  *left = std::exchange(link->next, link);
  return link;
}

void BucketShared::Sweep(FunctionRef<bool()> must_stop) noexcept {
  if (!sweep_is_due_.exchange(false)) return;
  SweepLink* left = nullptr;
  {
    const std::lock_guard lock(mutex_);
    left = std::exchange(first_, nullptr);
  }
  const LiveVersions live = views_->LiveFromNowOn();
  // From Unlist on a writer that adds history to the bucket lists it again.
  while (SweepLink* const link = Unlist(&left)) {
    bool keeps_history = false;
    uint64_t next_key = 0;
    BucketIndex::SweptPart part;
    do {
      if (must_stop()) return;
      part = link->bucket->SweepPart(&next_key, live);
      // Relaxed: a statistic.
      swept_records_.fetch_add(part.record_count, std::memory_order_relaxed);
      keeps_history |= part.is_left;
    } while (part.has_next);
    if (keeps_history) Add(link);
  }
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr) views_->NoteUnpinned();
}

}  // namespace engine_race

#include "engine_race/index/pinned_buckets.h"

#include <utility>

#include "engine_race/index/bucket_index.h"

namespace engine_race {

void PinnedBuckets::Add(PinnedLink* link) noexcept {
  const std::lock_guard lock(mutex_);
  if (!link->is_listed) {
    link->is_listed = true;
    link->next = std::exchange(first_, link);
  }
  // Also for one that was listed already: the caller's next look at the views comes behind it.
  views_->NotePinned();
}

void PinnedBuckets::Sweep() noexcept {
  const LiveEpochs live = views_->Live();
  PinnedLink* left = nullptr;
  {
    const std::lock_guard lock(mutex_);
    left = std::exchange(first_, nullptr);
  }
  while (left != nullptr) {
    PinnedLink* const link = left;
    {
      const std::lock_guard lock(mutex_);
      left = std::exchange(link->next, nullptr);
      link->is_listed = false;
    }
    // Who gives the bucket new history meanwhile puts it into the list again.
    if (link->bucket->SweepHistory(live)) Add(link);
  }
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr) views_->NoteUnpinned();
}

}  // namespace engine_race

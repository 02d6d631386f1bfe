#include "engine_race/index/bucket_shared.h"

#include <new>
#include <system_error>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/thread_name.h"
#include "engine_race/index/bucket_index.h"

namespace engine_race {

BucketShared::Work BucketShared::work() const {
  // Relaxed: statistics.
  return {merged_records_.load(std::memory_order_relaxed),
          swept_records_.load(std::memory_order_relaxed),
          sweep_steps_.load(std::memory_order_relaxed)};
}

void BucketShared::Add(SweepLink* link) noexcept {
  const std::lock_guard lock(mutex_);
  ENGINE_RACE_ASSERT(link->bucket != nullptr);
  if (!link->is_listed()) link->next = std::exchange(first_, link);
  // Also if the bucket was listed already: the caller looks at the views after this call.
  views_->NotePinned();
}

void BucketShared::RequestSweep() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ++requested_;
    if (StartThread()) {
      wake_.notify_one();
      return;
    }
  }
  // If another caller is taking a step, this one takes none.
  const std::unique_lock lock(step_mutex_, std::try_to_lock);
  if (lock.owns_lock()) Step();
}

bool BucketShared::StartThread() noexcept {
  if (thread_.joinable()) return true;
  try {
    thread_ = engine_race::StartThread("er-sweep", [this] { Run(); });
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void BucketShared::Stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void BucketShared::Run() noexcept {
  placement_.EnterBuildThread();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return is_stopping_ || served_ != requested_; });
      if (is_stopping_) return;
    }
    const std::lock_guard lock(step_mutex_);
    Step();
  }
}

void BucketShared::Step() noexcept {
  // Relaxed, here and below: statistics.
  sweep_steps_.fetch_add(1, std::memory_order_relaxed);
  if (!is_sweeping_) BeginPass();
  if (swept_ == nullptr && !FindBucket()) return EndPass();
  const BucketIndex::SweptPart part = swept_->bucket->SweepPart(&next_key_, live_);
  swept_records_.fetch_add(part.record_count, std::memory_order_relaxed);
  keeps_history_ |= part.is_left;
  if (part.has_next) return;
  SweepLink* const done = std::exchange(swept_, nullptr);
  if (keeps_history_) Add(done);
}

void BucketShared::BeginPass() noexcept {
  {
    const std::lock_guard lock(mutex_);
    pass_request_ = requested_;
    left_ = std::exchange(first_, nullptr);
  }
  // After the requests were counted: the views that were released for them are gone by now.
  live_ = views_->LiveFromNowOn();
  is_sweeping_ = true;
}

bool BucketShared::FindBucket() noexcept {
  if (left_ == nullptr) return false;
  const std::lock_guard lock(mutex_);
  swept_ = left_;
  ENGINE_RACE_ASSERT(swept_->is_listed());
  // From here on a writer that adds history to the bucket lists it again.
  left_ = std::exchange(swept_->next, swept_);
  next_key_ = 0;
  keeps_history_ = false;
  return true;
}

void BucketShared::EndPass() noexcept {
  is_sweeping_ = false;
  live_ = LiveVersions();
  const std::lock_guard lock(mutex_);
  ENGINE_RACE_ASSERT(left_ == nullptr && swept_ == nullptr);
  ENGINE_RACE_ASSERT(served_ <= pass_request_ && pass_request_ <= requested_);
  served_ = pass_request_;
  if (first_ == nullptr) views_->NoteUnpinned();
}

}  // namespace engine_race

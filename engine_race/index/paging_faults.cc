#include "engine_race/index/paging_faults.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/doubling_pause.h"

namespace engine_race {
namespace {

constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kFirstRest{64};
// A loss this long after the last rest is no consequence of it.
constexpr std::chrono::seconds kForgottenAfter{60};

}  // namespace

std::chrono::milliseconds PagingFaults::PauseAfter(uint32_t failure_count) {
  return DoublingPause(kFirstPause, failure_count);
}

std::chrono::milliseconds PagingFaults::RestAfter(uint32_t loss_count) {
  return DoublingPause(kFirstRest, loss_count, kFreeLosses);
}

void PagingFaults::NoteWrite(const Status& written) noexcept {
  if (written.ok() && !has_failed()) return;
  const std::lock_guard lock(mutex_);
  // A failure for want of memory says nothing about the files.
  if (written.code() == Code::kOutOfMemory) return;
  uint32_t count = 0;
  if (!written.ok()) {
    count = std::min(failure_count_.load(std::memory_order_relaxed) + 1, kMaxPauseDoublings + 1);
    const Clock::time_point next = Clock::now() + PauseAfter(count);
    next_write_.store(next.time_since_epoch().count(), std::memory_order_relaxed);
    failure_ = written;
  }
  failure_count_.store(count, std::memory_order_relaxed);
  if (written.ok()) has_told_.store(false, std::memory_order_relaxed);
}

Status PagingFaults::TakeFailure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, Status::Ok());
}

bool PagingFaults::NoteLoss(BucketIndex* bucket) {
  const std::lock_guard lock(mutex_);
  Loss& loss = losses_[bucket];
  const Clock::time_point now = Clock::now();
  if (now > loss.rested + kForgottenAfter) loss.count = 0;
  // The doubling stops long before the count would overflow.
  loss.count = std::min(loss.count + 1, kFreeLosses + kMaxPauseDoublings + 1);
  loss.rested = now;
  loss.is_resting = false;
  return loss.count > kFreeLosses;
}

void PagingFaults::BeginRest(BucketIndex* bucket) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = losses_.find(bucket);
  ENGINE_RACE_ASSERT(found != losses_.end());
  found->second.rested = Clock::now() + RestAfter(found->second.count);
  found->second.is_resting = true;
}

std::vector<BucketIndex*> PagingFaults::TakeRested() {
  std::vector<BucketIndex*> rested;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  rested.reserve(losses_.size());
  for (auto& [bucket, loss] : losses_) {
    if (!loss.is_resting || loss.rested > now) continue;
    loss.is_resting = false;
    rested.push_back(bucket);
  }
  return rested;
}

std::optional<PagingFaults::Clock::time_point> PagingFaults::next_rested() const {
  const std::lock_guard lock(mutex_);
  std::optional<Clock::time_point> next;
  for (const auto& [bucket, loss] : losses_) {
    if (loss.is_resting && (!next || loss.rested < *next)) next = loss.rested;
  }
  return next;
}

}  // namespace engine_race

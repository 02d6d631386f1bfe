#include "engine_race/base/shared_progress.h"

#include <algorithm>

namespace engine_race {
namespace {

Status Cancelled() { return Status(Code::kIncomplete, "the caller has cancelled it"); }

}  // namespace

Status SharedProgress::Add(uint64_t record_count) {
  {
    const std::lock_guard lock(mutex_);
    done_count_ += record_count;
    if (is_cancelled_) return Cancelled();
    if (std::this_thread::get_id() != caller_) {
      changed_.notify_one();
      return Status::Ok();
    }
  }
  return Tell();
}

// Not under the mutex: other threads go on while the caller's function runs.
Status SharedProgress::Tell() {
  uint64_t done_count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) return Cancelled();
    done_count = told_count_ = done_count_;
  }
  if (!on_progress_ || on_progress_(std::min(done_count, most_count_), most_count_)) {
    return Status::Ok();
  }
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  return Cancelled();
}

uint64_t SharedProgress::done_count() const {
  const std::lock_guard lock(mutex_);
  return done_count_;
}

void SharedProgress::EndWorker() {
  const std::lock_guard lock(mutex_);
  ++ended_worker_count_;
  changed_.notify_one();
}

Status SharedProgress::AwaitWorkers(size_t worker_count) {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] { return !is_cancelled_ && done_count_ != told_count_; };
  while (ended_worker_count_ < worker_count || has_news()) {
    changed_.wait(lock, [&] { return ended_worker_count_ == worker_count || has_news(); });
    if (!has_news()) continue;
    lock.unlock();
    // Each thread that works finds out by itself.
    static_cast<void>(Tell().ok());
    lock.lock();
  }
  ended_worker_count_ = 0;
  return is_cancelled_ ? Cancelled() : Status::Ok();
}

}  // namespace engine_race

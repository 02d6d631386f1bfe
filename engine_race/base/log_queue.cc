#include "engine_race/base/log_queue.h"

#include <chrono>
#include <utility>

#include "engine_race/base/guarded.h"

namespace engine_race {
namespace {

uint64_t NowNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

Status LogQueue::Make(size_t max_count, std::shared_ptr<LogQueue>* queue) {
  if (max_count == 0 || max_count > kMaxCount) {
    return Status::InvalidArgument("a log queue has room for 1 to " + std::to_string(kMaxCount) +
                                   " messages, not " + std::to_string(max_count));
  }
  return Guarded([&] {
    // A forked child does not free it: a thread of the parent may have been in a call.
    std::shared_ptr<LogQueue> made(new LogQueue(max_count), [](LogQueue* unused) {
      if (!unused->fork_mark_.InChild()) delete unused;
    });
    ENGINE_RACE_RETURN_IF_ERROR(ForkMark::Make(&made->fork_mark_));
    *queue = std::move(made);
    return Status::Ok();
  });
}

void LogQueue::Put(LogLevel level, std::string_view text) noexcept {
  if (fork_mark_.InChild()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_kept =
      messages_.size() < max_count_ && Guarded([&] {
                                         messages_.push_back({level, NowNs(), std::string(text)});
                                         return Status::Ok();
                                       }).ok();
  if (!is_kept) ++dropped_count_;
  CountWaiting();
}

bool LogQueue::Take(Message* message) noexcept {
  if (fork_mark_.InChild()) {
    // For those who take until none waits. Relaxed: a hint.
    waiting_count_.store(0, std::memory_order_relaxed);
    return false;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!messages_.empty()) {
    *message = std::move(messages_.front());
    messages_.pop_front();
    CountWaiting();
    return true;
  }
  if (dropped_count_ == 0) return false;
  const Status told = Guarded([&] {
    message->text = "messages dropped from the log: " + std::to_string(dropped_count_);
    return Status::Ok();
  });
  if (!told.ok()) return false;
  message->level = LogLevel::kWarning;
  message->time_ns = NowNs();
  dropped_count_ = 0;
  CountWaiting();
  return true;
}

// Under the mutex.
void LogQueue::CountWaiting() noexcept {
  const size_t count = messages_.size() + (dropped_count_ > 0 ? 1 : 0);
  // Relaxed: a hint. The messages themselves are under the mutex.
  waiting_count_.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
}

}  // namespace engine_race

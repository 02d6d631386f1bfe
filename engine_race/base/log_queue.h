// A bounded queue of log messages, for programs whose own code may not run in the engine's threads.
//
// The first messages stay when it is full: they tell of the cause more often than the last ones do.
// The later ones are counted, and a message of the queue's own says how many were dropped.
//
// Thread-safe. In a forked child it takes and gives nothing, and is never freed. A thread of the
// parent may have held its lock at the fork.
#ifndef ENGINE_RACE_BASE_LOG_QUEUE_H_
#define ENGINE_RACE_BASE_LOG_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "engine_race/base/fork_mark.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

class LogQueue {
 public:
  static constexpr size_t kMaxCount = 65536;

  struct Message {
    LogLevel level = LogLevel::kInfo;
    uint64_t time_ns = 0;  // since 1970, when it was put
    std::string text;
  };

  // For up to `max_count` messages, 1 to kMaxCount. kInvalidArgument, kOutOfMemory.
  static Status Make(size_t max_count, std::shared_ptr<LogQueue>* queue);

  // Drops the message when the queue is full, and when memory is refused.
  void Put(LogLevel level, std::string_view text) noexcept;
  // Takes the oldest message. False when none waits, when memory is refused, and in a child.
  bool Take(Message* message) noexcept;

  // How many messages wait. A relaxed hint, which costs a load.
  const std::atomic<uint32_t>& waiting_count() const { return waiting_count_; }

 private:
  explicit LogQueue(size_t max_count) : max_count_(max_count) {}
  void CountWaiting() noexcept;

  const size_t max_count_;
  ForkMark fork_mark_;
  std::mutex mutex_;
  std::deque<Message> messages_;
  uint64_t dropped_count_ = 0;  // since the queue last said so
  std::atomic<uint32_t> waiting_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_LOG_QUEUE_H_

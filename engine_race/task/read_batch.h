// The keys of one MultiRead, taken one by one by any number of workers.
//
// Thread-safe; lives with its caller, who waits until it is finished.
#ifndef ENGINE_RACE_TASK_READ_BATCH_H_
#define ENGINE_RACE_TASK_READ_BATCH_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/task/read_job.h"

namespace engine_race {

class ReadBatch;
class ReadWorker;

// Somebody who waits for a worker, or for others to finish its batch. Under the pool's mutex.
struct Waiter {
  ReadBatch* batch = nullptr;  // null: a thread of the pool
  ReadWorker* granted = nullptr;
  bool finished = false;
  std::condition_variable changed;
  Waiter* next = nullptr;
};

class ReadBatch {
 public:
  // As many values and statuses as keys, at least one. Keys of another size than kKeyBytes are the
  // owner's to refuse: Take marks them by a null value.
  ReadBatch(std::span<const std::string_view> keys, std::span<std::string> values,
            std::span<Status> statuses)
      : keys_(keys), values_(values), statuses_(statuses) {
    waiter.batch = this;
  }

  // The next key that nobody has taken; false when there is none.
  bool Take(ReadJob* job) noexcept {
    // Relaxed: the keys were there before the batch was shown to anybody.
    if (next_.load(std::memory_order_relaxed) >= keys_.size()) return false;
    const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= keys_.size()) return false;
    const std::string_view key = keys_[index];
    const bool good = key.size() == kKeyBytes && key.data() != nullptr;
    job->key = good ? DecodeKey(key.data()) : 0;
    job->value = good ? &values_[index] : nullptr;
    job->batch = this;
    job->index = index;
    job->posted = nullptr;
    return true;
  }
  // True for the answer that was the last one: the batch is finished, and may be gone as soon as
  // its owner hears of that.
  bool Answer(size_t index, Status status) noexcept {
    statuses_[index] = std::move(status);
    // Before the answer is counted: unless it is the last one, the batch may be gone after that.
    const size_t key_count = keys_.size();
    // Release, and acquire for the last: who reports the end has seen every answer.
    return answered_.fetch_add(1, std::memory_order_acq_rel) + 1 == key_count;
  }
  std::string_view key(size_t index) const { return keys_[index]; }
  // Relaxed, both: hints.
  bool all_taken() const { return next_.load(std::memory_order_relaxed) >= keys_.size(); }
  bool all_answered() const { return answered_.load(std::memory_order_relaxed) == keys_.size(); }

  // Its owner.
  Waiter waiter;

 private:
  const std::span<const std::string_view> keys_;
  const std::span<std::string> values_;
  const std::span<Status> statuses_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> answered_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_BATCH_H_

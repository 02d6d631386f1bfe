// The keys of one MultiRead, and its caller that waits for them.
//
// It lives on its caller's stack until every key is answered. One thread at a time hands out keys:
// see ReadTurns. Answers come from any thread.
#ifndef ENGINE_RACE_TASK_READ_BATCH_H_
#define ENGINE_RACE_TASK_READ_BATCH_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/task/read_job.h"

namespace engine_race {

class ReadWorker;

// A link in the ring of ReadTurns.
struct TurnSource {
  TurnSource* next_source = nullptr;
};

class ReadBatch : public TurnSource {
 public:
  // There must be as many values and statuses as keys, at least one.
  ReadBatch(std::span<const std::string_view> keys, std::span<std::string> values,
            std::span<Status> statuses)
      : keys_(keys), values_(values), statuses_(statuses) {}

  // Hands out the keys from *begin to *end, at most `max_count`. False when every key has been
  // handed out.
  bool Take(size_t max_count, size_t* begin, size_t* end) noexcept {
    ENGINE_RACE_ASSERT(next_ <= keys_.size());
    *begin = next_;
    *end = next_ += std::min(max_count, keys_.size() - next_);
    return *begin < *end;
  }
  bool all_taken() const { return next_ == keys_.size(); }

  // The job of a key that was handed out. Its value is null if the key's size is not kKeyBytes; the
  // owner of the worker refuses such a job.
  ReadJob JobOf(size_t index) noexcept {
    ENGINE_RACE_ASSERT(index < next_);
    const std::string_view key = keys_[index];
    const bool good = key.size() == kKeyBytes && key.data() != nullptr;
    ReadJob job;
    job.key = good ? DecodeKey(key.data()) : 0;
    job.value = good ? &values_[index] : nullptr;
    job.batch = this;
    job.index = index;
    return job;
  }
  std::string_view key(size_t index) const { return keys_[index]; }

  // Stores the answer of a key. True for the last one: the batch is then finished, and its caller
  // may destroy it as soon as it is told so.
  bool Answer(size_t index, Status status) noexcept {
    statuses_[index] = std::move(status);
    // Read before the answer is counted. Unless it is the last one, the batch may be destroyed
    // after that.
    const size_t key_count = keys_.size();
    // Release, and acquire for the last answer: its thread sees every other answer.
    const size_t before = answered_.fetch_add(1, std::memory_order_acq_rel);
    ENGINE_RACE_ASSERT(before < key_count);
    return before + 1 == key_count;
  }
  // Relaxed: a hint.
  bool all_answered() const { return answered_.load(std::memory_order_relaxed) == keys_.size(); }

  // Under the pool's mutex. The caller waits for a worker or for the last answer.
  ReadWorker* granted = nullptr;
  bool finished = false;
  std::condition_variable changed;

 private:
  const std::span<const std::string_view> keys_;
  const std::span<std::string> values_;
  const std::span<Status> statuses_;
  size_t next_ = 0;
  std::atomic<size_t> answered_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_BATCH_H_

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
  // There must be as many values and statuses as keys, at least one. A view of `version` must be
  // held while the batch lives, unless that is kLatestVersion.
  ReadBatch(std::span<const std::string_view> keys, std::span<std::string> values,
            std::span<Status> statuses, uint64_t version = kLatestVersion)
      : key_count_(keys.size()),
        version_(version),
        keys_(keys),
        values_(values),
        statuses_(statuses) {}
  // Of numbers, whose values go to rows of `row_bytes`, one after another. There must be as many
  // rows and codes as numbers, at least one.
  ReadBatch(std::span<const uint64_t> numbers, char* rows, uint32_t row_bytes,
            std::span<Code> codes, uint64_t version = kLatestVersion)
      : key_count_(numbers.size()),
        version_(version),
        numbers_(numbers),
        rows_(rows),
        row_bytes_(row_bytes),
        codes_(codes) {}

  // Hands out the keys from *begin to *end, at most `max_count`. False when every key has been
  // handed out.
  bool Take(size_t max_count, size_t* begin, size_t* end) noexcept {
    ENGINE_RACE_ASSERT(next_ <= key_count_);
    *begin = next_;
    *end = next_ += std::min(max_count, key_count_ - next_);
    return *begin < *end;
  }
  bool all_taken() const { return next_ == key_count_; }

  // The job of a key that was handed out. Its value is not set if the key's size is not kKeyBytes;
  // the owner of the worker refuses such a job.
  ReadJob JobOf(size_t index) noexcept {
    // Other workers hand out further keys meanwhile, so next_ is not looked at here.
    ENGINE_RACE_ASSERT(index < key_count_);
    ReadJob job;
    job.version = version_;
    job.batch = this;
    job.index = index;
    if (rows_ != nullptr) {
      job.key = numbers_[index];
      job.value = ValueSink(rows_ + index * row_bytes_);
    } else if (const std::string_view key = keys_[index];
               key.size() == kKeyBytes && key.data() != nullptr) {
      job.key = DecodeKey(key.data());
      job.value = &values_[index];
    }
    return job;
  }
  // kInvalidArgument for a key that is no key of `range`.
  Status CheckKey(const KeyRange& range, size_t index) const {
    if (rows_ == nullptr) return CheckKeyOf(range, keys_[index]);
    return CheckKeyOf(range, KeyBytes(numbers_[index]).view());
  }

  // Stores the answer of a key. True for the last one: the batch is then finished, and its caller
  // may destroy it as soon as it is told so.
  bool Answer(size_t index, Status status) noexcept {
    if (rows_ != nullptr) {
      codes_[index] = status.code();
    } else {
      statuses_[index] = std::move(status);
    }
    // Read before the answer is counted. Unless it is the last one, the batch may be destroyed
    // after that.
    const size_t key_count = key_count_;
    // Release, and acquire for the last answer: its thread sees every other answer.
    const size_t before = answered_.fetch_add(1, std::memory_order_acq_rel);
    ENGINE_RACE_ASSERT(before < key_count);
    return before + 1 == key_count;
  }
  // Relaxed: a hint.
  bool all_answered() const { return answered_.load(std::memory_order_relaxed) == key_count_; }

  // Under the pool's mutex. The caller waits for a worker or for the last answer.
  ReadWorker* granted = nullptr;
  bool finished = false;
  std::condition_variable changed;

 private:
  const size_t key_count_;
  const uint64_t version_;
  const std::span<const std::string_view> keys_;
  const std::span<std::string> values_;
  const std::span<Status> statuses_;
  const std::span<const uint64_t> numbers_;
  char* const rows_ = nullptr;  // null in a batch of strings
  const size_t row_bytes_ = 0;
  const std::span<Code> codes_;
  size_t next_ = 0;
  std::atomic<size_t> answered_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_BATCH_H_

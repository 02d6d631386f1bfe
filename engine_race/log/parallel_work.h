// Work on many buckets or files of a store, done by several threads.
#ifndef ENGINE_RACE_LOG_PARALLEL_WORK_H_
#define ENGINE_RACE_LOG_PARALLEL_WORK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "engine_race/base/parallel.h"
#include "engine_race/base/status.h"

namespace engine_race {

// Hands out the numbers from 0 to count - 1, each once. Thread-safe.
class NumberQueue {
 public:
  explicit NumberQueue(uint32_t count) : count_(count) {}

  // False when all numbers have been handed out.
  bool Take(uint32_t* number) {
    *number = next_.fetch_add(1);
    return *number < count_;
  }

 private:
  const uint32_t count_;
  std::atomic<uint32_t> next_{0};
};

// Calls `worker` on up to 16 threads; each takes from the queue of `count` numbers until it is
// empty. Returns the first failure, or Ok. A worker that fails ends; the others go on. For
// `progress` see RunParallel.
inline Status RunWorkers(uint32_t count, const std::function<Status(NumberQueue* queue)>& worker,
                         SharedProgress* progress = nullptr) {
  constexpr uint32_t kMaxThreads = 16;
  NumberQueue queue(count);
  return RunParallel(
      "er-log", std::min(kMaxThreads, count), [&](uint32_t) { return worker(&queue); }, progress);
}

// Calls `work` with each number from 0 to count - 1, in parallel as RunWorkers does. After a
// failure some numbers may be left out.
inline Status ForEachNumber(uint32_t count, const std::function<Status(uint32_t number)>& work) {
  return RunWorkers(count, [&work](NumberQueue* queue) {
    for (uint32_t number = 0; queue->Take(&number);) ENGINE_RACE_RETURN_IF_ERROR(work(number));
    return Status::Ok();
  });
}

// ForEachNumber with the numbers of buckets.
inline Status ForEachBucket(const std::vector<uint32_t>& buckets,
                            const std::function<Status(uint32_t bucket)>& work) {
  return ForEachNumber(static_cast<uint32_t>(buckets.size()),
                       [&](uint32_t i) { return work(buckets[i]); });
}

// ForEachBucket with look(bucket, &good). *all: every bucket was looked at, and none has set its
// *good to false. Once one has, the others may be left out, and their failures do not count.
inline Status AreAllGood(const std::vector<uint32_t>& buckets,
                         const std::function<Status(uint32_t bucket, bool* good)>& look,
                         bool* all) {
  std::atomic<bool> found_bad{false};
  Status looked = ForEachBucket(buckets, [&](uint32_t bucket) {
    bool good = true;
    if (!found_bad.load()) ENGINE_RACE_RETURN_IF_ERROR(look(bucket, &good));
    if (!good) found_bad.store(true);
    return Status::Ok();
  });
  *all = looked.ok() && !found_bad.load();
  return found_bad.load() ? Status::Ok() : std::move(looked);
}

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_PARALLEL_WORK_H_

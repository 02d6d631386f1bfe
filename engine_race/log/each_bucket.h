// The same work on many buckets, by several threads.
#ifndef ENGINE_RACE_LOG_EACH_BUCKET_H_
#define ENGINE_RACE_LOG_EACH_BUCKET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine_race/base/parallel.h"
#include "engine_race/base/status.h"

namespace engine_race {

// Calls `work` for each of the buckets. The first failure, or Ok; buckets that no thread has begun
// by then may be left out.
inline Status ForEachBucket(const std::vector<uint32_t>& buckets,
                            const std::function<Status(uint32_t bucket)>& work) {
  constexpr size_t kMaxThreads = 16;
  std::atomic<size_t> next{0};
  const auto count = static_cast<uint32_t>(std::min(kMaxThreads, buckets.size()));
  return RunParallel(count, [&](uint32_t) {
    for (size_t i = next.fetch_add(1); i < buckets.size(); i = next.fetch_add(1)) {
      ENGINE_RACE_RETURN_IF_ERROR(work(buckets[i]));
    }
    return Status::Ok();
  });
}

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_EACH_BUCKET_H_

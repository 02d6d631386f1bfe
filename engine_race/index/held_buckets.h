// The buckets of an index that may hold records, as a bitmap that walks over keys look into. A walk
// skips the others without a look at their indexes.
//
// Two levels: a bit for each bucket, and a bit for each word of such bits that is not zero. So a
// walk over 65 536 empty buckets loads seventeen words.
//
// A bucket is set before its first record gets a stamp. It is cleared only while no view shows a
// record of it. It is also set while it is unread or damaged, because a walk must fail there. Once
// readers know the bucket's index, both happen under the lock of that.
//
// Thread safety: every call from any thread. Only Set and Clear take a lock.
#ifndef ENGINE_RACE_INDEX_HELD_BUCKETS_H_
#define ENGINE_RACE_INDEX_HELD_BUCKETS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "engine_race/base/options.h"

namespace engine_race {

class HeldBuckets {
 public:
  // No bucket.
  static constexpr uint32_t kNone = kMaxBucketCount;

  void Set(uint32_t bucket) noexcept {
    // Relaxed: for one bucket, the lock of its index orders it after the calls that change it.
    if (!IsSet(bucket, std::memory_order_relaxed)) SetSlowly(bucket);
  }
  void Clear(uint32_t bucket) noexcept;

  // The first bucket that is set from `bucket` on, or kNone.
  uint32_t Next(uint32_t bucket) const noexcept;
  // The last bucket that is set up to `bucket`, or kNone.
  uint32_t Previous(uint32_t bucket) const noexcept;

 private:
  static constexpr uint32_t kWordBits = 64;
  static constexpr uint32_t kWords = kMaxBucketCount / kWordBits;
  static constexpr uint32_t kTopWords = kWords / kWordBits;

  bool IsSet(uint32_t bucket, std::memory_order order) const noexcept {
    return (words_[bucket / kWordBits].load(order) >> bucket % kWordBits & 1) != 0;
  }
  void SetSlowly(uint32_t bucket) noexcept;

  std::array<std::atomic<uint64_t>, kWords> words_{};
  // Bit i: words_[i] may be other than zero.
  std::array<std::atomic<uint64_t>, kTopWords> top_{};
  std::mutex mutex_;  // around changes of both
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_HELD_BUCKETS_H_

// How the keys of a store are divided over its buckets: in order of key, into stretches whose
// lengths differ by three keys at most.
//
// All keys are divided by their high bits, with a shift. A part of the keys is divided with one
// multiplication: bucket = (key - first) * multiplier >> 64 >> shift. The multiplier is
// bucket_count * 2^(64 + shift) / key count, rounded down, with the largest shift that leaves it 64
// bits. Its highest bit is always set, which bounds what rounding can do.
//
// A part with no more keys than buckets leaves the last buckets without keys. Its multiplier is the
// largest that there is. The first bucket gets two keys, and each further one gets one.
//
// A value type.
#ifndef ENGINE_RACE_LOG_KEY_DIVISION_H_
#define ENGINE_RACE_LOG_KEY_DIVISION_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/base/key_range.h"

namespace engine_race {

class KeyDivision {
 public:
  // All keys in one bucket.
  KeyDivision() = default;
  // `bucket_count` is a power of two up to 2^16, `keys` is not empty.
  KeyDivision(const KeyRange& keys, uint32_t bucket_count) : keys_(keys) {
    ENGINE_RACE_ASSERT(std::has_single_bit(bucket_count) && bucket_count <= 1u << 16);
    ENGINE_RACE_ASSERT(!keys.empty());
    if (keys.HasAllKeys()) {
      shift_ = 63 - static_cast<uint32_t>(std::countr_zero(bucket_count));
    } else {
      Divide(keys.last - keys.first + 1, bucket_count);
    }
    last_bucket_ = BucketOf(keys.last);
    ENGINE_RACE_ASSERT(last_bucket_ < bucket_count);
  }

  const KeyRange& keys() const { return keys_; }

  // Of a key among keys().
  uint32_t BucketOf(uint64_t key) const {
    ENGINE_RACE_ASSERT(keys_.Contains(key));
    // In two steps: to shift by 64 bits is undefined.
    if (multiplier_ == 0) [[likely]] {
      return static_cast<uint32_t>(key >> 1 >> shift_);
    }
    const auto product = static_cast<unsigned __int128>(key - keys_.first) * multiplier_;
    return static_cast<uint32_t>(static_cast<uint64_t>(product >> 64) >> shift_);
  }
  // Whether the key is among keys() and belongs to the bucket.
  bool IsIn(uint32_t bucket, uint64_t key) const {
    return keys_.Contains(key) && BucketOf(key) == bucket;
  }

  // Buckets behind this one have no keys.
  uint32_t last_bucket() const { return last_bucket_; }
  // Of a bucket that has keys.
  uint64_t FirstKeyOf(uint32_t bucket) const {
    ENGINE_RACE_ASSERT(bucket <= last_bucket_);
    if (multiplier_ == 0) return uint64_t{bucket} << shift_ << 1;
    // The least offset whose product reaches the bucket.
    const unsigned __int128 product = static_cast<unsigned __int128>(bucket) << shift_ << 64;
    const auto offset = static_cast<uint64_t>((product + (multiplier_ - 1)) / multiplier_);
    ENGINE_RACE_ASSERT(offset <= keys_.last - keys_.first);
    return keys_.first + offset;
  }
  uint64_t LastKeyOf(uint32_t bucket) const {
    ENGINE_RACE_ASSERT(bucket <= last_bucket_);
    return bucket == last_bucket_ ? keys_.last : FirstKeyOf(bucket + 1) - 1;
  }
  // Empty for a bucket without keys.
  KeyRange KeysOf(uint32_t bucket) const {
    if (bucket > last_bucket_) return {1, 0};
    return {FirstKeyOf(bucket), LastKeyOf(bucket)};
  }

 private:
  void Divide(uint64_t key_count, uint32_t bucket_count) {
    if (key_count <= bucket_count) {
      // bucket_count * 2^64 / key_count has more than 64 bits.
      shift_ = 0;
      multiplier_ = ~uint64_t{0};
      return;
    }
    // bucket_count * 2^shift < key_count <= bucket_count * 2^(shift + 1).
    shift_ = static_cast<uint32_t>(std::bit_width((key_count - 1) / bucket_count)) - 1;
    const unsigned __int128 numerator = static_cast<unsigned __int128>(bucket_count)
                                        << shift_ << 64;
    multiplier_ = static_cast<uint64_t>(numerator / key_count);
    ENGINE_RACE_ASSERT(multiplier_ >> 63 == 1);
  }

  KeyRange keys_;
  uint64_t multiplier_ = 0;  // 0: of all keys, by a shift alone
  uint32_t shift_ = 63;
  uint32_t last_bucket_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_KEY_DIVISION_H_

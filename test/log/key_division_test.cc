// Keys divided over buckets: every range against arithmetic done the slow way.
#include "engine_race/log/key_division.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace engine_race {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

// Each bucket's keys follow those of the bucket before, and only they lead to it.
void ExpectDivided(const KeyRange& keys, uint32_t bucket_count) {
  SCOPED_TRACE(std::to_string(keys.first) + " to " + std::to_string(keys.last) + " over " +
               std::to_string(bucket_count));
  const KeyDivision division(keys, bucket_count);
  EXPECT_EQ(division.keys(), keys);
  ASSERT_LT(division.last_bucket(), bucket_count);
  uint64_t next = keys.first;
  for (uint32_t bucket = 0; bucket <= division.last_bucket(); ++bucket) {
    const KeyRange own = division.KeysOf(bucket);
    ASSERT_FALSE(own.empty()) << bucket;
    ASSERT_EQ(own.first, next) << bucket;
    ASSERT_EQ(division.FirstKeyOf(bucket), own.first);
    ASSERT_EQ(division.LastKeyOf(bucket), own.last);
    for (const uint64_t key : {own.first, own.last, own.first + (own.last - own.first) / 2}) {
      ASSERT_EQ(division.BucketOf(key), bucket) << key;
      ASSERT_TRUE(division.IsIn(bucket, key));
      ASSERT_FALSE(division.IsIn(bucket + 1, key));
    }
    next = own.last + 1;
  }
  EXPECT_EQ(next, keys.last + 1);
  for (uint32_t bucket = division.last_bucket() + 1; bucket < bucket_count; ++bucket) {
    ASSERT_TRUE(division.KeysOf(bucket).empty());
  }
  if (keys.first > 0) {
    EXPECT_FALSE(division.IsIn(0, keys.first - 1));
  }
  if (keys.last < kMax) {
    EXPECT_FALSE(division.IsIn(division.last_bucket(), keys.last + 1));
  }
}

// Of a range with more keys than buckets.
void ExpectEqual(const KeyRange& keys, uint32_t bucket_count) {
  const KeyDivision division(keys, bucket_count);
  ASSERT_EQ(division.last_bucket(), bucket_count - 1);
  uint64_t least = kMax;
  uint64_t most = 0;
  for (uint32_t bucket = 0; bucket < bucket_count; ++bucket) {
    const uint64_t length = division.LastKeyOf(bucket) - division.FirstKeyOf(bucket);
    least = std::min(least, length);
    most = std::max(most, length);
  }
  EXPECT_LE(most - least, 3u) << keys.first << " to " << keys.last << " over " << bucket_count;
}

const uint32_t kBucketCounts[] = {1, 2, 8, 1024, 65536};

TEST(KeyDivisionTest, AllKeysFollowTheirHighBits) {
  for (const uint32_t count : kBucketCounts) {
    ExpectDivided({}, count);
    const KeyDivision division(KeyRange(), count);
    for (const uint64_t key :
         {uint64_t{0}, uint64_t{1} << 63, uint64_t{0x123456789abcdef0}, kMax}) {
      const unsigned __int128 product = static_cast<unsigned __int128>(key) * count;
      EXPECT_EQ(division.BucketOf(key), static_cast<uint32_t>(product >> 64));
    }
  }
  EXPECT_EQ(KeyDivision().BucketOf(kMax), 0u);
}

TEST(KeyDivisionTest, QuartersHaveTheBoundsOfFinerBuckets) {
  const KeyDivision all(KeyRange(), 4096);
  for (uint64_t i = 0; i < 4; ++i) {
    const KeyRange quarter = {i << 62, (i << 62) + (kMax >> 2)};
    const KeyDivision division(quarter, 1024);
    for (uint32_t bucket = 0; bucket < 1024; ++bucket) {
      const auto finer = static_cast<uint32_t>(i) * 1024 + bucket;
      ASSERT_EQ(division.FirstKeyOf(bucket), all.FirstKeyOf(finer)) << bucket;
      ASSERT_EQ(division.LastKeyOf(bucket), all.LastKeyOf(finer)) << bucket;
    }
  }
}

TEST(KeyDivisionTest, AnyBounds) {
  const KeyRange ranges[] = {{0, 0},
                             {kMax, kMax},
                             {0, 1},
                             {kMax - 1, kMax},
                             {0, kMax - 1},
                             {1, kMax},
                             {1, kMax - 1},
                             {kMax / 3, kMax / 3 * 2},
                             {(uint64_t{1} << 63) - 1, uint64_t{1} << 63},
                             {0, (uint64_t{1} << 63) - 1},
                             {0, uint64_t{1} << 63}};
  for (const KeyRange& keys : ranges) {
    for (const uint32_t count : kBucketCounts) ExpectDivided(keys, count);
  }
}

// The places where the shift changes: around each multiple of the number of buckets that is a power
// of two, at both ends of the key space.
TEST(KeyDivisionTest, EveryLengthNearAPowerOfTwo) {
  for (const uint32_t count : {1u, 4u, 64u}) {
    for (uint32_t bits = 0; bits < 64; ++bits) {
      for (const uint64_t length :
           {(uint64_t{1} << bits) - 1, uint64_t{1} << bits, (uint64_t{1} << bits) + 1}) {
        if (length == 0) continue;
        ExpectDivided({0, length - 1}, count);
        ExpectDivided({kMax - (length - 1), kMax}, count);
      }
    }
  }
}

TEST(KeyDivisionTest, MoreBucketsThanKeys) {
  for (uint64_t length = 1; length <= 70; ++length) {
    ExpectDivided({1000, 1000 + length - 1}, 64);
    ExpectDivided({kMax - length + 1, kMax}, 64);
  }
}

TEST(KeyDivisionTest, BucketsAreEqual) {
  const KeyRange ranges[] = {{0, kMax - 1},      {1, kMax},     {0, kMax / 3},
                             {7, kMax / 5 * 4},  {0, 100000},   {9, 65545},
                             {5, 5 + 3 * 65536}, {3, kMax / 7}, {kMax / 2, kMax}};
  for (const KeyRange& keys : ranges) {
    for (const uint32_t count : kBucketCounts) ExpectEqual(keys, count);
  }
}

TEST(KeyDivisionTest, RandomRanges) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t a = rng() >> rng() % 64;
    const uint64_t b = rng() % 2 == 0 ? rng() : a + (rng() >> rng() % 64);
    const KeyRange keys = {std::min(a, b), std::max(a, b)};
    const uint32_t count = 1u << rng() % 17;
    const KeyDivision division(keys, count);
    uint32_t last_bucket = 0;
    uint64_t step = (keys.last - keys.first) / 50 + 1;
    for (uint64_t key = keys.first;; key += step) {
      const uint32_t bucket = division.BucketOf(key);
      ASSERT_GE(bucket, last_bucket) << "order";
      ASSERT_TRUE(division.KeysOf(bucket).Contains(key));
      last_bucket = bucket;
      if (keys.last - key < step) break;
    }
    ASSERT_EQ(division.BucketOf(keys.last), division.last_bucket());
  }
}

}  // namespace
}  // namespace engine_race

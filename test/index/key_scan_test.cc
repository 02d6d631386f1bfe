#include "engine_race/index/key_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

namespace engine_race {
namespace {

constexpr uint64_t kTopBit = uint64_t{1} << 63;

using CountFn = size_t (*)(const uint64_t*, uint64_t);

class KeyScanTest : public testing::TestWithParam<CountFn> {};

TEST_P(KeyScanTest, CountsAsTheStandardDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::array<uint64_t, kScanKeyCount> keys;
    const uint64_t side = round % 3 == 0 ? 0 : kTopBit;
    const uint64_t mask = round % 2 == 0 ? kTopBit - 1 : 31;
    for (uint64_t& key : keys) key = side | (random() & mask);
    if (round % 5 == 0) keys.back() = side | (kTopBit - 1);
    if (round % 7 == 0) keys.front() = side;
    std::sort(keys.begin(), keys.end());
    for (const uint64_t key : keys) {
      for (const uint64_t wanted : {key - 1, key, key + 1}) {
        if ((wanted & kTopBit) != side) continue;
        if (wanted == kTopBit) continue;
        const auto place = std::lower_bound(keys.begin(), keys.end(), wanted) - keys.begin();
        ASSERT_EQ(GetParam()(keys.data(), wanted), static_cast<size_t>(place)) << wanted;
      }
    }
  }
}

// With keys on both sides of 2^63 the number may be wrong, but it never exceeds the number of keys.
TEST_P(KeyScanTest, NeverExceedsItsKeys) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::array<uint64_t, kScanKeyCount> keys;
    for (uint64_t& key : keys) key = random();
    for (const uint64_t wanted : {uint64_t{0}, kTopBit, ~uint64_t{0}, random()}) {
      ASSERT_LE(GetParam()(keys.data(), wanted), kScanKeyCount);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KeyScanTest, testing::Values(&CountBelow, &CountBelowPortable));

}  // namespace
}  // namespace engine_race

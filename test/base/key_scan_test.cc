#include "engine_race/base/key_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace engine_race {
namespace {

constexpr uint64_t kTopBit = uint64_t{1} << 63;

struct Kernel {
  uint32_t key_count;
  size_t (*count_below)(const uint64_t*, uint64_t);
};

class KeyScanTest : public testing::TestWithParam<Kernel> {};

TEST_P(KeyScanTest, CountsAsTheStandardDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint64_t> keys(GetParam().key_count);
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
        ASSERT_EQ(GetParam().count_below(keys.data(), wanted), static_cast<size_t>(place))
            << wanted;
      }
    }
  }
}

// With keys on both sides of 2^63 the number may be wrong, but it never exceeds the number of keys.
TEST_P(KeyScanTest, NeverExceedsItsKeys) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint64_t> keys(GetParam().key_count);
    for (uint64_t& key : keys) key = random();
    for (const uint64_t wanted : {uint64_t{0}, kTopBit, ~uint64_t{0}, random()}) {
      ASSERT_LE(GetParam().count_below(keys.data(), wanted), keys.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KeyScanTest,
                         testing::Values(Kernel{12, &CountBelow<>},
                                         Kernel{12, &CountBelowPortable<>},
                                         Kernel{32, &CountBelow<32>},
                                         Kernel{32, &CountBelowPortable<32>}));

}  // namespace
}  // namespace engine_race

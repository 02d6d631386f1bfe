#include "engine_race/index/key_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

namespace engine_race {
namespace {

using CountFn = size_t (*)(const uint64_t*, uint64_t);

class KeyScanTest : public testing::TestWithParam<CountFn> {};

TEST_P(KeyScanTest, CountsAsTheStandardDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::array<uint64_t, kScanKeyCount> keys;
    const uint64_t mask = round % 2 == 0 ? ~uint64_t{0} : 31;
    for (uint64_t& key : keys) key = random() & mask;
    std::sort(keys.begin(), keys.end());
    if (round % 5 == 0) keys.back() = ~uint64_t{0};
    if (round % 7 == 0) keys.front() = 0;
    for (const uint64_t key : keys) {
      for (const uint64_t wanted : {key - 1, key, key + 1, uint64_t{0}, ~uint64_t{0}}) {
        const auto place = std::lower_bound(keys.begin(), keys.end(), wanted) - keys.begin();
        ASSERT_EQ(GetParam()(keys.data(), wanted), static_cast<size_t>(place)) << wanted;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KeyScanTest, testing::Values(&CountBelow, &CountBelowPortable));

}  // namespace
}  // namespace engine_race

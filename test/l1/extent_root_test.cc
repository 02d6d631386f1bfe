#include "engine_race/l1/extent_root.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "test/l1/table_test_util.h"

namespace engine_race::test {
namespace {

using l1::ExtentRoot;
using l1::GuessRank;

TEST(ExtentRootTest, FindsTheFirstExtentThatEndsAtOrAboveTheKey) {
  std::mt19937_64 random(1);
  for (const uint32_t key_bytes : {8u, 16u, 32u}) {
    for (const KeyKind kind : kKeyKinds) {
      for (const size_t count : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 100, 257}) {
        SCOPED_TRACE(testing::Message()
                     << key_bytes << ", kind " << static_cast<int>(kind) << ", " << count);
        const Records lasts = RandomRecords(kind, {key_bytes, 8}, count, &random);
        std::vector<char> joined;
        for (const auto& [key, payload] : lasts) {
          joined.insert(joined.end(), key.begin(), key.end());
        }
        ExtentRoot root;
        root.Build(joined, key_bytes);
        ASSERT_EQ(root.count(), lasts.size());
        for (const std::string& probe : Probes(lasts, key_bytes, 60, &random)) {
          ASSERT_EQ(root.Find(probe.data()),
                    std::distance(lasts.begin(), lasts.lower_bound(probe)));
        }
      }
    }
  }
}

TEST(GuessRankTest, LiesBetweenTheFirstAndTheLast) {
  constexpr uint64_t kMax = ~uint64_t{0};
  EXPECT_EQ(GuessRank(100, 200, 100, 10), 0u);
  EXPECT_EQ(GuessRank(100, 200, 155, 10), 5u);
  EXPECT_EQ(GuessRank(100, 200, 199, 10), 9u);
  EXPECT_EQ(GuessRank(100, 200, 200, 10), 9u);
  EXPECT_EQ(GuessRank(100, 200, 0, 10), 0u);
  EXPECT_EQ(GuessRank(100, 200, kMax, 10), 9u);
  EXPECT_EQ(GuessRank(7, 7, 7, 10), 0u);
  EXPECT_EQ(GuessRank(0, kMax, kMax - 1, 1000), 999u);
  EXPECT_EQ(GuessRank(0, kMax, kMax / 2, 1), 0u);
}

}  // namespace
}  // namespace engine_race::test

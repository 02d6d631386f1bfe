#include "harness/data/key_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace engine_race::harness {
namespace {

TEST(RecordDrawTest, EveryRankIsARecordOfItsOwn) {
  // Also where the stride's factors (3 and others) divide the count.
  for (const uint64_t count :
       {1ull, 2ull, 3ull, 64ull, 1000ull, 11400714819323198485ull % 100000, 4093ull, 65536ull}) {
    const RecordDraw draw(DrawShape::kZipfian, count);
    std::vector<bool> seen(count, false);
    for (uint64_t rank = 0; rank < count; ++rank) {
      const uint64_t index = draw.IndexOfRank(rank);
      ASSERT_LT(index, count);
      ASSERT_FALSE(seen[index]) << count << ", rank " << rank;
      seen[index] = true;
    }
  }
}

TEST(RecordDrawTest, ZipfianDrawsFollowTheExponent) {
  constexpr uint64_t kRecords = 5000;
  constexpr uint64_t kDraws = 400000;
  const RecordDraw draw(DrawShape::kZipfian, kRecords);
  std::vector<double> counts(kRecords, 0);
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[draw.IndexFrom(MixAt(3, i))];
  // The shares, computed term by term.
  double zeta = 0;
  for (uint64_t rank = 0; rank < kRecords; ++rank) {
    zeta += std::pow(static_cast<double>(rank + 1), -0.99);
  }
  const auto expected = [&](uint64_t begin, uint64_t end) {
    double share = 0;
    for (uint64_t rank = begin; rank < end; ++rank) {
      share += std::pow(static_cast<double>(rank + 1), -0.99) / zeta;
    }
    return share * kDraws;
  };
  const auto drawn = [&](uint64_t begin, uint64_t end) {
    double sum = 0;
    for (uint64_t rank = begin; rank < end; ++rank) sum += counts[draw.IndexOfRank(rank)];
    return sum;
  };
  EXPECT_NEAR(drawn(0, 1), expected(0, 1), 6 * std::sqrt(expected(0, 1)));
  EXPECT_NEAR(drawn(1, 2), expected(1, 2), 6 * std::sqrt(expected(1, 2)));
  // For later ranks the method is accurate to a few percent.
  EXPECT_NEAR(drawn(0, 50), expected(0, 50), 0.05 * expected(0, 50));
  EXPECT_NEAR(drawn(50, 500), expected(50, 500), 0.05 * expected(50, 500));
  EXPECT_NEAR(drawn(500, 5000), expected(500, 5000), 0.05 * expected(500, 5000));
}

TEST(RecordDrawTest, HotRecordsAreNotNeighbours) {
  const RecordDraw draw(DrawShape::kZipfian, 1 << 20);
  std::vector<uint64_t> hot;
  for (uint64_t rank = 0; rank < 100; ++rank) hot.push_back(draw.IndexOfRank(rank));
  std::sort(hot.begin(), hot.end());
  for (size_t i = 1; i < hot.size(); ++i) EXPECT_GT(hot[i] - hot[i - 1], 100u);
}

TEST(RecordDrawTest, UniformDrawsAreEven) {
  const RecordDraw draw(DrawShape::kUniform, 64);
  std::vector<int> counts(64, 0);
  for (uint64_t i = 0; i < 64000; ++i) ++counts[draw.IndexFrom(MixAt(9, i))];
  // 1000 each; 6 standard deviations to either side.
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 810);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 1190);
}

}  // namespace
}  // namespace engine_race::harness

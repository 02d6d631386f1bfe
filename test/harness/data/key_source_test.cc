#include "harness/data/key_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "engine_race/base/key.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kCount = 20000;
constexpr uint64_t kSeed = 42;

std::vector<uint64_t> KeysOf(KeyShape shape, uint64_t seed = kSeed) {
  const KeySource source(shape, kCount, seed);
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < kCount; ++i) keys.push_back(source.KeyAt(i));
  return keys;
}

const KeyShape kShapes[] = {KeyShape::kUniform, KeyShape::kSequential, KeyShape::kZipfian,
                            KeyShape::kOneBucket};

TEST(KeySourceTest, NamesAndShapesAgree) {
  std::set<std::optional<KeyShape>> named;
  for (const std::string& name : KeyShapeNames()) named.insert(ParseKeyShape(name));
  EXPECT_EQ(named, std::set<std::optional<KeyShape>>(std::begin(kShapes), std::end(kShapes)));
  EXPECT_FALSE(ParseKeyShape("uniforms").has_value());
}

TEST(KeySourceTest, SummaryIsWhatASetOfTheKeysSays) {
  for (const KeyShape shape : kShapes) {
    const std::vector<uint64_t> keys = KeysOf(shape);
    const std::set<uint64_t> distinct(keys.begin(), keys.end());
    uint64_t sum = 0;
    for (const uint64_t key : distinct) sum += key;
    const KeySummary summary = KeySource(shape, kCount, kSeed).Summarize();
    EXPECT_EQ(summary.distinct_count, distinct.size()) << static_cast<int>(shape);
    EXPECT_EQ(summary.key_sum, sum) << static_cast<int>(shape);
  }
}

TEST(KeySourceTest, UniformFillsEveryBucketEvenly) {
  const std::vector<uint64_t> keys = KeysOf(KeyShape::kUniform);
  EXPECT_EQ(std::set<uint64_t>(keys.begin(), keys.end()).size(), kCount);
  std::vector<int> counts(64, 0);
  for (const uint64_t key : keys) ++counts[key >> 58];
  // 312 to a bucket; 6 standard deviations to either side.
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 312 - 106);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 312 + 106);
}

TEST(KeySourceTest, SeedsGiveOtherKeys) {
  EXPECT_EQ(KeysOf(KeyShape::kUniform), KeysOf(KeyShape::kUniform));
  const std::vector<uint64_t> a = KeysOf(KeyShape::kUniform, 1);
  std::set<uint64_t> both(a.begin(), a.end());
  const std::vector<uint64_t> b = KeysOf(KeyShape::kUniform, 2);
  both.insert(b.begin(), b.end());
  EXPECT_EQ(both.size(), 2 * kCount);
}

TEST(KeySourceTest, SequentialIsTheFirstIntegers) {
  const std::vector<uint64_t> keys = KeysOf(KeyShape::kSequential);
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(keys[i], i);
}

TEST(KeySourceTest, OneBucketSharesTenBitsAndNoMore) {
  const std::vector<uint64_t> keys = KeysOf(KeyShape::kOneBucket);
  EXPECT_EQ(std::set<uint64_t>(keys.begin(), keys.end()).size(), kCount);
  std::vector<int> counts(16, 0);
  for (const uint64_t key : keys) {
    ASSERT_EQ(key >> 54, keys[0] >> 54);
    ++counts[(key >> 50) & 15];
  }
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 1250 - 210);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 1250 + 210);
}

TEST(KeySourceTest, ZipfianRepeatsKeysAsItsExponentSays) {
  std::map<uint64_t, int> counts;
  for (const uint64_t key : KeysOf(KeyShape::kZipfian)) ++counts[key];
  std::vector<int> sorted;
  for (const auto& [key, count] : counts) sorted.push_back(count);
  std::sort(sorted.rbegin(), sorted.rend());
  const ZipfRanks ranks(kCount);
  const double expected = ranks.ShareOf(0) * kCount;
  EXPECT_NEAR(sorted[0], expected, 6 * std::sqrt(expected));
  EXPECT_GT(sorted.size(), kCount / 10);
  EXPECT_LT(sorted.size(), kCount / 2);
  // Scrambled: the frequent keys are not neighbours.
  std::set<uint64_t> prefixes;
  for (const auto& [key, count] : counts) prefixes.insert(key >> 60);
  EXPECT_EQ(prefixes.size(), 16u);
}

TEST(ZipfRanksTest, SharesAddUpToOne) {
  // Above 1000 ranks the sum comes from a formula.
  for (const uint64_t count : {1, 2, 3, 1000, 1001, 50000}) {
    const ZipfRanks ranks(count);
    double sum = 0;
    for (uint64_t rank = 0; rank < count; ++rank) sum += ranks.ShareOf(rank);
    EXPECT_NEAR(sum, 1, 1e-9) << count;
  }
}

TEST(ZipfRanksTest, SharesFallWithTheExponent) {
  const ZipfRanks ranks(50000);
  for (const uint64_t rank : {0, 1, 9, 999}) {
    const double below = ranks.ShareOf(2 * rank + 1) / ranks.ShareOf(rank);
    EXPECT_NEAR(below, std::pow(2, -0.99), 1e-12) << rank;
  }
}

TEST(ZipfRanksTest, DrawsFollowTheShares) {
  constexpr uint64_t kDraws = 100000;
  const ZipfRanks ranks(1000);
  std::vector<int> counts(1000, 0);
  for (uint64_t i = 0; i < kDraws; ++i) {
    ++counts[ranks.RankAt((static_cast<double>(i) + 0.5) / kDraws)];
  }
  // The two most frequent ranks are drawn exactly, the others by a formula close to their share.
  EXPECT_NEAR(counts[0], ranks.ShareOf(0) * kDraws, 1);
  EXPECT_NEAR(counts[1], ranks.ShareOf(1) * kDraws, 1);
  int first_hundred = 0;
  double expected = 0;
  for (uint64_t rank = 0; rank < 100; ++rank) {
    first_hundred += counts[rank];
    expected += ranks.ShareOf(rank) * kDraws;
  }
  EXPECT_NEAR(first_hundred, expected, expected * 0.02);
}

TEST(ZipfRanksTest, StaysInRange) {
  for (const uint64_t count : {1, 2, 3, 10, 100000}) {
    const ZipfRanks ranks(count);
    EXPECT_EQ(ranks.RankAt(0), 0u);
    EXPECT_LT(ranks.RankAt(0.5), count);
    EXPECT_LT(ranks.RankAt(1 - 0x1p-53), count);
  }
}

constexpr KeyRange kThird = {0x5555555555555555, 0xaaaaaaaaaaaaaaa9};

TEST(KeySourceTest, RangesHoldEveryShape) {
  for (const KeyRange range : {kThird, KeyRange{0, kCount * 1024 - 1},
                               KeyRange{~uint64_t{0} - kCount * 1024, ~uint64_t{0}}}) {
    for (const KeyShape shape : kShapes) {
      ASSERT_GE(MaxKeyCount(shape, range), kCount);
      const KeySource source(shape, kCount, kSeed, range);
      std::set<uint64_t> distinct;
      uint64_t sum = 0;
      for (uint64_t i = 0; i < kCount; ++i) {
        const uint64_t key = source.KeyAt(i);
        ASSERT_TRUE(range.Contains(key)) << static_cast<int>(shape) << " " << key;
        if (distinct.insert(key).second) sum += key;
      }
      EXPECT_EQ(distinct.size() == kCount, shape != KeyShape::kZipfian) << static_cast<int>(shape);
      EXPECT_EQ(source.Summarize().distinct_count, distinct.size()) << static_cast<int>(shape);
      EXPECT_EQ(source.Summarize().key_sum, sum) << static_cast<int>(shape);
    }
  }
}

TEST(KeySourceTest, UniformFillsARangeEvenly) {
  const KeySource source(KeyShape::kUniform, kCount, kSeed, kThird);
  std::vector<int> counts(64, 0);
  const uint64_t part = (kThird.last - kThird.first) / 64 + 1;
  for (uint64_t i = 0; i < kCount; ++i) ++counts[(source.KeyAt(i) - kThird.first) / part];
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 312 - 106);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 312 + 106);
}

// A range that holds as many keys as there are records has no key to spare.
TEST(KeySourceTest, FillsASmallRangeWithoutAGap) {
  for (const uint64_t count : {1u, 2u, 3u, 5u, 64u, 1000u}) {
    const KeyRange range = {7, 7 + count - 1};
    ASSERT_EQ(MaxKeyCount(KeyShape::kUniform, range), count);
    const KeySource source(KeyShape::kUniform, count, kSeed, range);
    std::set<uint64_t> distinct;
    for (uint64_t i = 0; i < count; ++i) distinct.insert(source.KeyAt(i));
    EXPECT_EQ(distinct.size(), count);
    EXPECT_EQ(*distinct.begin(), 7u);
    EXPECT_EQ(*distinct.rbegin(), range.last);
  }
}

TEST(KeySourceTest, OneBucketOfARangeIsOneOfItsParts) {
  const KeySource source(KeyShape::kOneBucket, kCount, kSeed, kThird);
  const uint64_t part = (kThird.last - kThird.first + 1) / 1024;
  const uint64_t first = (source.KeyAt(0) - kThird.first) / part;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ((source.KeyAt(i) - kThird.first) / part, first);
  }
}

TEST(KeyRangeTest, ReadsBothEnds) {
  EXPECT_EQ(ParseKeyRange("0-0"), (KeyRange{0, 0}));
  EXPECT_EQ(ParseKeyRange("0x4000-0x7FFF"), (KeyRange{0x4000, 0x7fff}));
  EXPECT_EQ(ParseKeyRange("5-18446744073709551615"), (KeyRange{5, ~uint64_t{0}}));
  EXPECT_EQ(ParseKeyRange(ToString(kThird)), kThird);
  for (const char* bad : {"", "-", "1", "1-", "-1", "2-1", "1-2-3", "-1-5", "1:2",
                          "1-18446744073709551616", "0x-0x5", "a-b", " 1-2"}) {
    EXPECT_FALSE(ParseKeyRange(bad).has_value()) << bad;
  }
}

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

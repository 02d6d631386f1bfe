#include "harness/measure/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace harness {
namespace {

// The smallest value that at least `fraction` of all values do not exceed.
uint64_t ExactPercentile(std::vector<uint64_t> values, double fraction) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

TEST(HistogramTest, EmptyGivesZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.Percentile(0.5), 0u);
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.mean(), 0);
}

TEST(HistogramTest, SmallValuesAreExact) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 60; ++value) histogram.Add(value);
  EXPECT_EQ(histogram.Percentile(0.5), 30u);
  EXPECT_EQ(histogram.Percentile(0.05), 3u);
  EXPECT_EQ(histogram.Percentile(1), 60u);
  EXPECT_EQ(histogram.Percentile(0), 1u);
  EXPECT_DOUBLE_EQ(histogram.mean(), 30.5);
}

TEST(HistogramTest, AFractionOfAValueCountsAsOne) {
  Histogram histogram;
  for (const uint64_t value : {10, 20, 30}) histogram.Add(value);
  EXPECT_EQ(histogram.Percentile(0.33), 10u);
  EXPECT_EQ(histogram.Percentile(0.34), 20u);
  EXPECT_EQ(histogram.Percentile(0.5), 20u);
  EXPECT_EQ(histogram.Percentile(0.67), 30u);
}

TEST(HistogramTest, PercentilesAreWithinOneStepOfTheSortedOnes) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> spread(10, 2);
  Histogram histogram;
  std::vector<uint64_t> values;
  for (int i = 0; i < 100000; ++i) {
    values.push_back(static_cast<uint64_t>(spread(random)));
    histogram.Add(values.back());
  }
  for (const double fraction : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(ExactPercentile(values, fraction));
    const auto found = static_cast<double>(histogram.Percentile(fraction));
    EXPECT_GE(found, exact) << fraction;
    EXPECT_LE(found, exact * (1 + 1.0 / 64) + 1) << fraction;
  }
}

TEST(HistogramTest, TakesTheWholeRangeOfWords) {
  Histogram histogram;
  histogram.Add(0);
  histogram.Add(~uint64_t{0});
  EXPECT_EQ(histogram.Percentile(0.5), 0u);
  EXPECT_EQ(histogram.Percentile(1), ~uint64_t{0});
  for (int bit = 0; bit < 64; ++bit) {
    Histogram single;
    single.Add(uint64_t{1} << bit);
    EXPECT_EQ(single.Percentile(0.5), uint64_t{1} << bit);
  }
}

TEST(HistogramTest, MergingIsAddingTogether) {
  std::mt19937_64 random(8);
  Histogram all, even, odd;
  for (int i = 0; i < 10000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    all.Add(value);
    (i % 2 == 0 ? even : odd).Add(value);
  }
  even.Merge(odd);
  EXPECT_EQ(even.count(), all.count());
  EXPECT_EQ(even.max(), all.max());
  for (const double fraction : {0.01, 0.5, 0.99, 0.999}) {
    EXPECT_EQ(even.Percentile(fraction), all.Percentile(fraction));
  }
}

}  // namespace
}  // namespace harness

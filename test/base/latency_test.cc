// LatencyHistogram and LatencyRecorder, compared with sorted vectors of what was recorded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/latency_recorder.h"

namespace engine_race {
namespace {

constexpr double kFractions[] = {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0};

// Of every size: as many of each number of bits.
std::vector<uint64_t> DrawLatencies(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> drawn;
  for (size_t i = 0; i < count; ++i) drawn.push_back(random() >> (25 + random() % 39));
  return drawn;
}

LatencyHistogram HistogramOf(const std::vector<uint64_t>& values) {
  LatencyHistogram histogram;
  for (const uint64_t value : values) histogram.Add(value);
  return histogram;
}

void ExpectAgrees(const LatencyHistogram& histogram, std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  ASSERT_EQ(histogram.count(), values.size());
  EXPECT_EQ(histogram.sum_ns(), std::accumulate(values.begin(), values.end(), uint64_t{0}));
  EXPECT_EQ(histogram.max_ns(), values.back());
  for (const double fraction : kFractions) {
    const auto rank = static_cast<size_t>(
        std::max(std::ceil(fraction * static_cast<double>(values.size())), 1.0));
    const uint64_t exact = values[rank - 1];
    const uint64_t found = histogram.PercentileNs(fraction);
    EXPECT_GE(found, exact) << fraction;
    EXPECT_LE(found, exact + exact / LatencyHistogram::kSteps) << fraction;
  }
  for (uint32_t bits = 0; bits < LatencyHistogram::kValueBits; ++bits) {
    const auto end = std::lower_bound(values.begin(), values.end(), uint64_t{1} << bits);
    EXPECT_EQ(histogram.CountBelow(bits), static_cast<uint64_t>(end - values.begin())) << bits;
  }
}

TEST(LatencyHistogramTest, StepsFollowOneAnotherWithoutGaps) {
  uint64_t first = 0;
  for (size_t step = 0; step < LatencyHistogram::kStepCount; ++step) {
    const uint64_t top = LatencyHistogram::TopOf(step);
    ASSERT_GE(top, first);
    ASSERT_EQ(LatencyHistogram::StepOf(first), step);
    ASSERT_EQ(LatencyHistogram::StepOf(top), step);
    first = top + 1;
  }
  EXPECT_EQ(first, uint64_t{1} << LatencyHistogram::kValueBits);
}

TEST(LatencyHistogramTest, NothingRecordedIsZero) {
  const LatencyHistogram empty;
  EXPECT_EQ(empty.count(), 0u);
  EXPECT_EQ(empty.PercentileNs(0.99), 0u);
  EXPECT_EQ(empty.mean_ns(), 0);
  EXPECT_EQ(empty.CountBelow(63), 0u);
}

TEST(LatencyHistogramTest, PercentilesAreThoseOfTheSortedValues) {
  for (const size_t count : {size_t{1}, size_t{2}, size_t{99}, size_t{20000}}) {
    const std::vector<uint64_t> values = DrawLatencies(count, count);
    ExpectAgrees(HistogramOf(values), values);
  }
}

TEST(LatencyHistogramTest, ValuesBeyondTheLastStepCountInIt) {
  LatencyHistogram histogram;
  histogram.Add(~uint64_t{0});
  EXPECT_EQ(histogram.max_ns(), ~uint64_t{0});
  EXPECT_EQ(histogram.CountAt(LatencyHistogram::kStepCount - 1), 1u);
}

TEST(LatencyHistogramTest, MergedIsAllOfBoth) {
  std::vector<uint64_t> values = DrawLatencies(3000, 1);
  const std::vector<uint64_t> others = DrawLatencies(5000, 2);
  LatencyHistogram merged = HistogramOf(values);
  merged.Merge(HistogramOf(others));
  merged.Merge(LatencyHistogram());
  values.insert(values.end(), others.begin(), others.end());
  ExpectAgrees(merged, values);
}

TEST(LatencyHistogramTest, SinceIsWhatWasAddedMeanwhile) {
  const std::vector<uint64_t> early = DrawLatencies(1000, 3);
  const std::vector<uint64_t> late = DrawLatencies(2000, 4);
  const LatencyHistogram before = HistogramOf(early);
  LatencyHistogram now = before;
  now.Merge(HistogramOf(late));
  const LatencyHistogram since = now.Since(before);
  const LatencyHistogram wanted = HistogramOf(late);
  ASSERT_EQ(since.count(), wanted.count());
  EXPECT_EQ(since.sum_ns(), wanted.sum_ns());
  for (size_t step = 0; step < LatencyHistogram::kStepCount; ++step) {
    ASSERT_EQ(since.CountAt(step), wanted.CountAt(step)) << step;
  }
  for (const double fraction : {0.5, 0.99}) {
    EXPECT_EQ(since.PercentileNs(fraction), wanted.PercentileNs(fraction));
  }
  // An exact maximum of the interval is not known, only its step.
  EXPECT_EQ(LatencyHistogram::StepOf(since.max_ns()), LatencyHistogram::StepOf(wanted.max_ns()));
  EXPECT_EQ(before.Since(before).count(), 0u);
}

TEST(LatencyRecorderTest, LosesNothingThatManyThreadsRecord) {
  constexpr uint32_t kThreads = 12;
  LatencyRecorder recorder(true);
  std::vector<uint64_t> all;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    std::vector<uint64_t> values = DrawLatencies(4000, 100 + i);
    all.insert(all.end(), values.begin(), values.end());
    threads.emplace_back([&recorder, values = std::move(values)] {
      for (const uint64_t value : values) recorder.Record(value);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectAgrees(recorder.Snapshot(), all);
}

TEST(LatencyRecorderTest, ATimerRecordsOnceIfItIsOn) {
  LatencyRecorder on(true);
  LatencyRecorder off(false);
  { const LatencyTimer timer(on); }
  { const LatencyTimer timer(off); }
  EXPECT_EQ(on.Snapshot().count(), 1u);
  EXPECT_FALSE(off.on());
  EXPECT_EQ(off.Snapshot().count(), 0u);
}

}  // namespace
}  // namespace engine_race

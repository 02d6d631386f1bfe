#include "engine_race/l1/frequency_sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "test/test_util.h"

namespace engine_race::test {
namespace {

using l1::FrequencySketch;

TEST(FrequencySketchTest, CountsOneKeyUpToItsEnd) {
  FrequencySketch sketch;
  ASSERT_TRUE(sketch.Allocate(1000).ok());
  EXPECT_EQ(sketch.Estimate(7), 0u);
  for (uint32_t i = 1; i <= 20; ++i) {
    EXPECT_EQ(sketch.Note(7), std::min(i, FrequencySketch::kMaxFrequency));
    EXPECT_EQ(sketch.Estimate(7), std::min(i, FrequencySketch::kMaxFrequency));
  }
  EXPECT_EQ(sketch.Estimate(8), 0u);
}

// Keys that lie close together or have only high bits set do not share counters more than others.
TEST(FrequencySketchTest, KeysOfEveryShapeAreToldApart) {
  for (const uint64_t stride : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 44}) {
    FrequencySketch sketch;
    constexpr uint32_t kKeys = 4096;
    ASSERT_TRUE(sketch.Allocate(kKeys).ok());
    uint32_t seen_twice = 0;
    for (uint64_t i = 0; i < kKeys; ++i) seen_twice += sketch.Note(i * stride) > 1;
    EXPECT_LT(seen_twice, kKeys / 50) << stride;
  }
}

// A scan of very many keys, each once: hardly any looks as if it had been read before.
TEST(FrequencySketchTest, AScanLooksInfrequent) {
  constexpr uint32_t kHot = 2000;
  constexpr uint64_t kScanned = 64 * kHot;
  FrequencySketch sketch;
  ASSERT_TRUE(sketch.Allocate(kHot).ok());
  uint64_t frequent = 0;
  for (uint64_t key = 0; key < kScanned; ++key) frequent += sketch.Note(key << 40) > 1;
  EXPECT_LT(frequent, kScanned / 50);
}

// Uniform reads of 64 times as many keys: about as many look read twice as were read twice.
TEST(FrequencySketchTest, UniformKeysAreSeldomFrequent) {
  constexpr uint32_t kHot = 2000;
  FrequencySketch sketch;
  ASSERT_TRUE(sketch.Allocate(kHot).ok());
  std::mt19937_64 random(1);
  uint64_t twice = 0;
  uint64_t often = 0;
  constexpr uint64_t kReads = 200000;
  for (uint64_t i = 0; i < kReads; ++i) {
    const uint32_t frequency = sketch.Note(random() % (64 * kHot));
    twice += frequency > 1;
    often += frequency > 2;
  }
  // With 16 notes a period for each of the hot and 64 keys in its place, a key is asked for a
  // quarter times a period: 1 - e^-0.25 = 22 % of them once by its end, 2.6 % twice. Half of that
  // on average, and those whose earlier count has not been halved away.
  EXPECT_LT(twice, kReads * 0.22);
  EXPECT_LT(often, kReads * 0.026);
}

// Zipfian keys: the keys that are read most have higher frequencies than those in the long tail.
TEST(FrequencySketchTest, ZipfianHeadsStandOut) {
  constexpr uint32_t kHot = 1000;
  constexpr uint32_t kKeys = 16 * kHot;
  std::vector<double> sums(kKeys);
  double sum = 0;
  for (uint32_t i = 0; i < kKeys; ++i) sums[i] = sum += std::pow(i + 1, -0.99);
  FrequencySketch sketch;
  ASSERT_TRUE(sketch.Allocate(kHot).ok());
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(0, sum);
  for (int i = 0; i < 300000; ++i) {
    const auto rank = std::lower_bound(sums.begin(), sums.end(), uniform(random)) - sums.begin();
    sketch.Note(static_cast<uint64_t>(rank));
  }
  const auto mean = [&](uint32_t begin, uint32_t end) {
    double total = 0;
    for (uint32_t key = begin; key < end; ++key) total += sketch.Estimate(key);
    return total / (end - begin);
  };
  EXPECT_GT(mean(0, 20), 7);
  EXPECT_GT(mean(0, 100), 2 * mean(400, 1000));
  EXPECT_GT(mean(400, 1000), 2 * mean(8000, 16000));
}

TEST(FrequencySketchTest, WhatIsNotAskedForAnyMoreIsForgotten) {
  constexpr uint32_t kHot = 1000;
  FrequencySketch sketch;
  ASSERT_TRUE(sketch.Allocate(kHot).ok());
  const auto hot_mean = [&] {
    double total = 0;
    for (uint64_t key = 0; key < kHot / 10; ++key) total += sketch.Estimate(key);
    return total / (kHot / 10);
  };
  for (int round = 0; round < 15; ++round) {
    for (uint64_t key = 0; key < kHot / 10; ++key) sketch.Note(key);
  }
  EXPECT_GT(hot_mean(), 14);
  // As many others as there are hot keys: they age it a little.
  uint64_t other = uint64_t{1} << 32;
  for (uint32_t i = 0; i < 4 * kHot; ++i) sketch.Note(other++);
  EXPECT_GT(hot_mean(), 7);
  for (uint32_t i = 0; i < 60 * kHot; ++i) sketch.Note(other++);
  EXPECT_LT(hot_mean(), 2);
}

// No counter overflows into its neighbour, even if many threads note at once.
TEST(FrequencySketchTest, ThreadsLoseCountsAtMost) {
  FrequencySketch sketch;
  ASSERT_TRUE(sketch.Allocate(1).ok());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < Sized(200000, 20000); ++i) {
        sketch.Note(i % 4 == 0 ? 5 : (t << 32) + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 15; ++i) sketch.Note(5);
  EXPECT_EQ(sketch.Estimate(5), FrequencySketch::kMaxFrequency);
}

}  // namespace
}  // namespace engine_race::test

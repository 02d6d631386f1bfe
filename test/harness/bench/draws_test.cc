// Which records benchmarks take: shares, permutations, the newest records.
#include "harness/bench/draws.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace engine_race::harness {
namespace {

BenchConfig ConfigOf(const std::string& benchmark, uint64_t num, uint32_t threads) {
  BenchConfig config;
  config.benchmark = benchmark;
  config.num = num;
  config.thread_count = threads;
  return config;
}

std::map<uint64_t, uint64_t> Draw(Distribution distribution, uint64_t num, uint64_t count,
                                  uint64_t draws) {
  const YcsbDraw draw(distribution, num);
  std::map<uint64_t, uint64_t> drawn;
  for (uint64_t i = 0; i < draws; ++i) ++drawn[draw.NumberFrom(MixAt(3, i), count)];
  return drawn;
}

std::vector<uint64_t> ByFrequency(const std::map<uint64_t, uint64_t>& drawn) {
  std::vector<uint64_t> counts;
  counts.reserve(drawn.size());
  for (const auto& [number, count] : drawn) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  return counts;
}

// The record of rank r is drawn 1 / (r + 1)^0.99 times as often as the first one.
TEST(YcsbDrawTest, ZipfianHasItsHead) {
  constexpr uint64_t kNum = 10000;
  constexpr uint64_t kDraws = 1000000;
  const ZipfRanks ranks(kNum);
  const auto drawn = Draw(Distribution::kZipfian, kNum, kNum, kDraws);
  const std::vector<uint64_t> counts = ByFrequency(drawn);
  double head = 0;
  double expected_head = 0;
  for (uint64_t rank = 0; rank < 100; ++rank) {
    head += static_cast<double>(counts[rank]) / kDraws;
    expected_head += ranks.ShareOf(rank);
  }
  EXPECT_NEAR(static_cast<double>(counts[0]) / kDraws, ranks.ShareOf(0), 0.002);
  EXPECT_NEAR(head, expected_head, 0.02);
  EXPECT_GT(head, 0.4);
}

// Its frequent records are scattered, not neighbours.
TEST(YcsbDrawTest, ZipfianScatters) {
  const auto drawn = Draw(Distribution::kZipfian, 10000, 10000, 200000);
  std::set<uint64_t> frequent;
  for (const auto& [number, count] : drawn) {
    if (count > 1000) frequent.insert(number);
  }
  ASSERT_GE(frequent.size(), 5u);
  for (const uint64_t number : frequent) EXPECT_EQ(frequent.count(number + 1), 0u);
}

TEST(YcsbDrawTest, UniformIsEven) {
  const auto drawn = Draw(Distribution::kUniform, 100, 100, 1000000);
  ASSERT_EQ(drawn.size(), 100u);
  for (const auto& [number, count] : drawn) EXPECT_NEAR(count, 10000, 600) << number;
}

TEST(YcsbDrawTest, LatestPrefersTheNewest) {
  // 200 records were inserted behind the first 1000.
  const auto drawn = Draw(Distribution::kLatest, 1000, 1200, 500000);
  EXPECT_EQ(drawn.rbegin()->first, 1199u);
  for (const auto& [number, count] : drawn) {
    EXPECT_LE(count, drawn.at(1199)) << number;
  }
  EXPECT_NEAR(static_cast<double>(drawn.at(1199)) / 500000, ZipfRanks(1000).ShareOf(0), 0.005);
}

TEST(YcsbDrawTest, LatestStaysWithinFewRecords) {
  for (const auto& [number, count] : Draw(Distribution::kLatest, 1000, 3, 10000)) {
    EXPECT_LT(number, 3u) << count;
  }
}

TEST(WriteDrawTest, SequentialAndUniqueTakeEachRecordOnce) {
  for (const WriteOrder order : {WriteOrder::kSequential, WriteOrder::kUnique}) {
    const BenchConfig config = ConfigOf("filluniquerandom", 1003, 4);
    std::set<uint64_t> taken;
    bool ascends = true;
    for (uint32_t thread = 0; thread < 4; ++thread) {
      const WriteDraw draw(config, order, thread);
      uint64_t last = 0;
      for (uint64_t call = 0; call < ShareOf(config.num, thread, 4); ++call) {
        const uint64_t number = draw.NumberAt(call);
        EXPECT_LT(number, config.num);
        EXPECT_TRUE(taken.insert(number).second) << number;
        ascends = ascends && number >= last;
        last = number;
      }
    }
    EXPECT_EQ(taken.size(), config.num);
    EXPECT_EQ(ascends, order == WriteOrder::kSequential);
  }
}

TEST(WriteDrawTest, ThreadsBenchmarksAndSeedsDrawDifferently) {
  const auto first = [](const BenchConfig& config, uint32_t thread) {
    std::vector<uint64_t> numbers;
    const WriteDraw draw(config, WriteOrder::kRandom, thread);
    for (uint64_t call = 0; call < 20; ++call) numbers.push_back(draw.NumberAt(call));
    return numbers;
  };
  const BenchConfig fill = ConfigOf("fillrandom", 1000000, 2);
  BenchConfig other_seed = fill;
  other_seed.seed = 2;
  EXPECT_EQ(first(fill, 0), first(fill, 0));
  EXPECT_NE(first(fill, 0), first(fill, 1));
  EXPECT_NE(first(fill, 0), first(ConfigOf("overwrite", 1000000, 2), 0));
  EXPECT_NE(first(fill, 0), first(other_seed, 0));
}

// Ends a wait at once.
constexpr auto kNever = [] { return false; };

TEST(YcsbDrawTest, ZipfianReadsInsertedRecords) {
  const YcsbDraw draw(Distribution::kZipfian, 1000, /*expected_inserts=*/100);
  std::set<uint64_t> early;
  std::set<uint64_t> late;
  for (uint64_t i = 0; i < 100000; ++i) {
    early.insert(draw.NumberFrom(MixAt(3, i), 1000));
    late.insert(draw.NumberFrom(MixAt(3, i), 1100));
  }
  // Only records that exist, and most of those.
  EXPECT_LT(*early.rbegin(), 1000u);
  EXPECT_LT(*late.rbegin(), 1100u);
  EXPECT_GT(std::distance(late.lower_bound(1000), late.end()), 80);
}

TEST(AckedCounterTest, CountsWhatIsWhole) {
  AckedCounter counter(10);
  EXPECT_EQ(counter.Claim(kNever), 10u);
  EXPECT_EQ(counter.Claim(kNever), 11u);
  EXPECT_EQ(counter.Claim(kNever), 12u);
  counter.Ack(11);
  EXPECT_EQ(counter.count(), 10u);
  counter.Ack(10);
  EXPECT_EQ(counter.count(), 12u);
  counter.Ack(12);
  EXPECT_EQ(counter.count(), 13u);
}

// Number 0 is withheld. Number 4 would share its bit.
TEST(AckedCounterTest, WaitsForASlowInsert) {
  AckedCounter counter(0, /*window=*/4);
  for (uint64_t number = 0; number < 4; ++number) EXPECT_EQ(counter.Claim(kNever), number);
  for (uint64_t number = 1; number < 4; ++number) counter.Ack(number);
  uint64_t looks = 0;
  const auto ack_at_the_third_look = [&] {
    if (++looks == 3) counter.Ack(0);
    return true;
  };
  EXPECT_EQ(counter.Claim(ack_at_the_third_look), 4u);
  EXPECT_EQ(looks, 3u);
  EXPECT_EQ(counter.count(), 4u);
  counter.Ack(4);
  EXPECT_EQ(counter.count(), 5u);
}

TEST(AckedCounterTest, AWaitEndsWithTheRun) {
  AckedCounter counter(0, /*window=*/1);
  EXPECT_EQ(counter.Claim(kNever), 0u);
  EXPECT_EQ(counter.Claim(kNever), std::nullopt);
}

TEST(AckedCounterTest, ManyThreadsLoseNothing) {
  constexpr uint64_t kEach = 50000;
  // Fewer than the threads, so that they wait for one another.
  AckedCounter counter(0, /*window=*/3);
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counter] {
      for (uint64_t n = 0; n < kEach; ++n) counter.Ack(*counter.Claim([] { return true; }));
    });
  }
  threads.clear();
  EXPECT_EQ(counter.count(), 4 * kEach);
}

}  // namespace
}  // namespace engine_race::harness

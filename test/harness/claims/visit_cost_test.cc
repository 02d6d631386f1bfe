// The baselines of a visit of a range: the visitors, the bare loops, the bare reads.
#include "harness/claims/visit_cost.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/value_maker.h"
#include "harness/load/bare_loops.h"
#include "harness/load/scan_writers.h"
#include "harness/load/store_runs.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kRecords = 300;
constexpr uint32_t kThreads = 3;

class RangeVisitorTest : public ::testing::Test {
 protected:
  // Whether a visitor takes record `index` with the byte at `at` flipped.
  bool Accepts(RangeChecks checks, size_t at) const {
    std::string value(kValueSize, '\0');
    const uint64_t key = keys_.KeyAt(7);
    values_.Fill(key, 7, value.data());
    value[at] = static_cast<char>(value[at] ^ 1);
    RangeVisitor visitor(keys_, values_, checks);
    try {
      visitor.Visit(KeyBytes(key).view(), value);
    } catch (const std::runtime_error&) {
      return false;
    }
    return visitor.Saw({1, key});
  }

  const KeySource keys_{KeyShape::kUniform, kRecords, 1};
  const ValueMaker values_{1};
};

TEST_F(RangeVisitorTest, LooksAsCloselyAsItIsTold) {
  EXPECT_TRUE(Accepts(RangeChecks::kNothing, 0));
  for (const size_t end : {size_t{0}, size_t{8}, kValueSize - 1}) {
    EXPECT_FALSE(Accepts(RangeChecks::kEnds, end)) << end;
  }
  EXPECT_TRUE(Accepts(RangeChecks::kEnds, kValueSize / 2));
  EXPECT_FALSE(Accepts(RangeChecks::kEverything, kValueSize / 2));
}

TEST_F(RangeVisitorTest, EachKeyMustFollowTheOneBefore) {
  const std::string value(kValueSize, '\0');
  RangeVisitor visitor(keys_, values_, RangeChecks::kNothing);
  visitor.Visit(KeyBytes(5).view(), value);
  visitor.Visit(KeyBytes(6).view(), value);
  EXPECT_THROW(visitor.Visit(KeyBytes(6).view(), value), std::runtime_error);
  EXPECT_THROW(visitor.Visit(KeyBytes(7).view(), value.substr(1)), std::runtime_error);
}

TEST_F(RangeVisitorTest, OneOfAPassChecksEverything) {
  for (uint32_t pass = 0; pass < 2 * kThreads; ++pass) {
    uint32_t count = 0;
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      if (ChecksOf(thread, pass, kThreads) == RangeChecks::kEverything) ++count;
    }
    EXPECT_EQ(count, 1U) << pass;
  }
}

TEST(VisitFloorTest, EveryLoopVisitsEverything) {
  const KeySource keys(KeyShape::kUniform, kRecords, 1);
  const ValueMaker values(1);
  VisitFloor floor(keys, values, kThreads);
  const Status prepared = floor.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.ToString();
  for (const uint32_t chunk : {0U, 1U, 7U, 100U, 300U, 1000U}) {
    for (const LoopVisitors visitors :
         {LoopVisitors::kRace, LoopVisitors::kInlinedRace, LoopVisitors::kInlinedEnds}) {
      double ns = 0;
      const Status ran = floor.Run({chunk, 8}, visitors, &ns);
      EXPECT_TRUE(ran.ok()) << chunk << ran.ToString();
      EXPECT_GT(ns, 0) << chunk;
    }
  }
  ASSERT_TRUE(floor.FindBest().ok());
  EXPECT_NE(floor.best().records_ahead, 0U);
}

TEST(VisitCostsTest, WhatIsLeftAfterTheReadsIsHeldAgainstTheFloor) {
  VisitCosts costs;
  costs.visit_ns = {50, 40};
  costs.reads_ns = {10, 6};
  costs.floor_ns = 20;
  EXPECT_DOUBLE_EQ(costs.mean_visit_ns(), 45);
  EXPECT_DOUBLE_EQ(costs.mean_reads_ns(), 8);
  EXPECT_DOUBLE_EQ(costs.over_floor(), 37.0 / 20);
}

class SmallStoreTest : public ::testing::Test {
 protected:
  RaceConfig Race() const {
    RaceConfig race;
    race.dir = temp_.path() + "/store";
    race.thread_count = kThreads;
    race.records_per_thread = kRecords / kThreads;
    return race;
  }

  test::TempDir temp_{test::FastParent()};
};

TEST_F(SmallStoreTest, BareReadsReadEveryLoggedValueOnce) {
  constexpr uint64_t kGroups = 5;
  Options options = QuietOptions();
  options.bucket_count = options.file_count = 1;
  const uint64_t flushed = kGroups * options.value_group_bytes / kValueSize;
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, Race().dir, &store).ok());
  // The records of the last group stay in staging.
  for (uint64_t key = 0; key < flushed + 1; ++key) {
    ASSERT_TRUE(store->Write(KeyBytes(key).view(), std::string(kValueSize, 'v')).ok());
  }
  store.reset();
  TimedPoint run;
  const Status status =
      ReadFiles(Race().dir, kValueFilePrefix, &run, /*read_bytes=*/3 * kValueSize, /*depth=*/4);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(run.byte_count, flushed * kValueSize);
  EXPECT_EQ(run.request_count, (flushed + 2) / 3);
}

TEST_F(SmallStoreTest, ARoundGoesThroughAndTheReadsOfAKeptPassAreFewer) {
  VisitCost cost(Race());
  const Status prepared = cost.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.ToString();
  for (int round = 0; round < 2; ++round) {
    VisitCosts costs;
    const Status ran = cost.Round(&costs);
    ASSERT_TRUE(ran.ok()) << ran.ToString();
    EXPECT_LE(costs.reads_ns[1], costs.reads_ns[0]);
  }
}

// The visitors compare every key and value with those that the store was filled with.
TEST_F(SmallStoreTest, AnOverwrittenStoreHasTheSameRecords) {
  VisitedStore store(Race());
  VisitPasses passes;
  for (const Status& status : {store.Write(), store.Open(), store.OverwriteTenth()}) {
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  const Status visited = store.Visit(&passes);
  ASSERT_TRUE(visited.ok()) << visited.ToString();
  EXPECT_EQ(store.record_count(), kRecords);
  for (const VisitPass& pass : passes) EXPECT_GT(pass.seconds, 0);
}

TEST_F(SmallStoreTest, AFastScanGoesOnBesideSlowOnes) {
  ScanGapShape shape;
  shape.dir = Race().dir;
  shape.record_count = kRecords;
  shape.warm_up_seconds = 0;
  shape.seconds = 0.01;
  ScanGap gap(shape);
  const Status prepared = gap.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.ToString();
  SlowScans slow;
  slow.count = 2;
  for (const bool alone : {true, false}) {
    FastScan fast;
    const Status ran = gap.Run(slow, alone, &fast);
    ASSERT_TRUE(ran.ok()) << ran.ToString();
    EXPECT_GT(fast.longest_gap_ns, 0U);
    EXPECT_EQ(fast.slow_visits_per_second > 0, !alone);
  }
}

}  // namespace
}  // namespace engine_race::harness

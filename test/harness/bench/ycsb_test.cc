// YCSB's workloads over a store in memory: their records, their mixes, what they insert.
#include <gtest/gtest.h>

#include <string>

#include "harness/bench/benchmark.h"
#include "test/harness/bench/memory_store.h"

namespace engine_race::harness {
namespace {

class YcsbTest : public ::testing::Test {
 protected:
  YcsbTest() {
    config_.num = 300;
    config_.reads = 2000;
    config_.thread_count = 2;
  }

  void SetUp() override { Run("ycsbload"); }

  BenchResult Run(const std::string& benchmark, Code expected = Code::kOk) {
    config_.benchmark = benchmark;
    BenchResult result;
    const Status status = RunBenchmark(config_, &store_, &result);
    EXPECT_EQ(status.code(), expected) << benchmark << ": " << status.ToString();
    return result;
  }

  static uint64_t Count(const BenchResult& result, OperationKind kind) {
    return result.latencies[static_cast<size_t>(kind)].count();
  }

  BenchConfig config_;
  MemoryStore store_;
};

TEST_F(YcsbTest, LoadsItsRecords) {
  const auto records = store_.Snapshot();
  EXPECT_EQ(records.size(), config_.num);
  // A number of writes is not one of records.
  config_.writes = 10;
  EXPECT_EQ(Count(Run("ycsbload"), OperationKind::kInsert), config_.num);
  for (uint64_t number = 0; number < config_.num; ++number) {
    EXPECT_EQ(records.count(YcsbKey(number)), 1u) << number;
  }
  bool has = false;
  ASSERT_TRUE(HasYcsbRecords(config_, &store_, &has).ok());
  EXPECT_TRUE(has);
  config_.num = 301;
  ASSERT_TRUE(HasYcsbRecords(config_, &store_, &has).ok());
  EXPECT_FALSE(has);
}

struct Mix {
  const char* benchmark;
  OperationKind kind;
  double share;
};

TEST_F(YcsbTest, MixesAreThoseOfTheWorkloads) {
  for (const Mix& mix :
       {Mix{"ycsba", OperationKind::kUpdate, 0.5}, Mix{"ycsba", OperationKind::kRead, 0.5},
        Mix{"ycsbb", OperationKind::kUpdate, 0.05}, Mix{"ycsbb", OperationKind::kRead, 0.95},
        Mix{"ycsbc", OperationKind::kRead, 1}, Mix{"ycsbd", OperationKind::kInsert, 0.05},
        Mix{"ycsbd", OperationKind::kRead, 0.95}, Mix{"ycsbe", OperationKind::kInsert, 0.05},
        Mix{"ycsbe", OperationKind::kScan, 0.95}, Mix{"ycsbf", OperationKind::kRead, 0.5},
        Mix{"ycsbf", OperationKind::kReadModifyWrite, 0.5}}) {
    const BenchResult result = Run(mix.benchmark);
    EXPECT_EQ(result.operations, 4000u) << mix.benchmark;
    EXPECT_TRUE(result.finished) << mix.benchmark;
    EXPECT_NEAR(static_cast<double>(Count(result, mix.kind)) / 4000, mix.share, 0.04)
        << mix.benchmark << " " << OperationKindName(mix.kind);
    EXPECT_EQ(result.found_count, result.lookup_count) << mix.benchmark;
  }
}

TEST_F(YcsbTest, UpdatesAddNoRecords) {
  for (const std::string benchmark : {"ycsba", "ycsbb", "ycsbc", "ycsbf"}) {
    EXPECT_EQ(Run(benchmark).ycsb_record_count, config_.num) << benchmark;
    EXPECT_EQ(store_.Snapshot().size(), config_.num) << benchmark;
  }
}

// Each run goes on behind the records that the one before has inserted.
TEST_F(YcsbTest, InsertsGoBehindTheRecords) {
  uint64_t count = config_.num;
  for (const std::string benchmark : {"ycsbd", "ycsbe", "ycsbd"}) {
    const BenchResult result = Run(benchmark);
    count += Count(result, OperationKind::kInsert);
    EXPECT_EQ(result.ycsb_record_count, count) << benchmark;
    EXPECT_EQ(store_.Snapshot().size(), count) << benchmark;
  }
}

TEST_F(YcsbTest, EveryDistributionFindsItsRecords) {
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kZipfian, Distribution::kLatest}) {
    config_.distribution = distribution;
    for (const std::string benchmark : {"ycsba", "ycsbd"}) {
      const BenchResult result = Run(benchmark);
      EXPECT_EQ(result.found_count, result.lookup_count);
    }
  }
}

TEST_F(YcsbTest, ScansHaveAtMostSoManyKeys) {
  config_.range_size = 1;
  const BenchResult result = Run("ycsbe");
  EXPECT_EQ(result.bytes, 4000 * RecordBytes());
}

// The threads of a load end at different times, so the last record alone proves nothing.
TEST_F(YcsbTest, ALoadThatWasCutOffIsNoLoad) {
  bool has = true;
  ASSERT_TRUE(store_.Delete(YcsbKey(config_.num - 3)).ok());
  ASSERT_TRUE(HasYcsbRecords(config_, &store_, &has).ok());
  EXPECT_FALSE(has);
}

TEST_F(YcsbTest, AValueThatCannotBeReadIsAnError) {
  store_.hides_values = true;
  EXPECT_FALSE(Run("ycsbe", Code::kIOError).finished);
}

TEST_F(YcsbTest, ExpectsInserts) {
  config_.benchmark = "ycsbe";
  EXPECT_EQ(ExpectedInserts(config_), 200u);
  config_.benchmark = "ycsba";
  EXPECT_EQ(ExpectedInserts(config_), 0u);
}

TEST_F(YcsbTest, MissingRecordsAreAnError) {
  ASSERT_TRUE(store_.Delete(YcsbKey(5)).ok());
  config_.distribution = Distribution::kUniform;
  EXPECT_FALSE(Run("ycsbc", Code::kNotFound).finished);
}

}  // namespace
}  // namespace engine_race::harness

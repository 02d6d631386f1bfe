// Benchmarks and flags that are there because db_bench has them.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "harness/bench/benchmark.h"
#include "harness/bench/session.h"
#include "test/harness/bench/memory_store.h"

namespace engine_race::harness {
namespace {

class DbBenchTest : public RunTest {
 protected:
  static uint64_t Count(const BenchResult& result, OperationKind kind) {
    return result.latencies[static_cast<size_t>(kind)].count();
  }
};

TEST_F(DbBenchTest, FillsyncWritesAThousandth) {
  config_.num = 4000;
  EXPECT_EQ(Run("fillsync").operations, 4u);
  config_.num = 10;
  EXPECT_EQ(Run("fillsync").operations, 1u);
  config_.writes = 7;
  EXPECT_EQ(Run("fillsync").operations, 7u);
}

TEST_F(DbBenchTest, WritesAreThoseOfAllThreads) {
  config_.writes = 100;
  for (const std::string benchmark : {"fillseq", "filluniquerandom", "fillrandom", "overwrite"}) {
    const BenchResult result = Run(benchmark);
    EXPECT_TRUE(result.finished) << benchmark;
    EXPECT_EQ(Count(result, OperationKind::kWrite), 100u) << benchmark;
  }
  EXPECT_EQ(Count(Run("deleterandom"), OperationKind::kDelete), 100u);
  config_.writes = 700;
  EXPECT_EQ(Run("overwrite").operations, 700u);
  // Of each key once there are no more.
  EXPECT_EQ(Run("fillseq").operations, config_.num);
  EXPECT_EQ(Run("filluniquerandom").operations, config_.num);
  // Reads have a number of their own.
  EXPECT_EQ(Run("readrandom").operations, config_.num * 3);
}

TEST_F(DbBenchTest, ReadrandomwriterandomReadsNineOfTen) {
  Run("fillseq");
  // The last five of a thread's two hundred are missing: they would be writes.
  config_.reads = 195;
  BenchResult result = Run("readrandomwriterandom");
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.operations, 585u);
  EXPECT_EQ(Count(result, OperationKind::kRead), 540u);
  EXPECT_EQ(Count(result, OperationKind::kWrite), 45u);
  EXPECT_EQ(result.lookup_count, 540u);
  EXPECT_EQ(result.found_count, 540u);
  EXPECT_EQ(result.bytes, 585 * RecordBytes());
  EXPECT_EQ(result.written_bytes, 45 * RecordBytes());
  config_.read_percent = 25;
  result = Run("readrandomwriterandom");
  EXPECT_EQ(Count(result, OperationKind::kRead), 150u);
  EXPECT_EQ(Count(result, OperationKind::kWrite), 435u);
}

TEST_F(DbBenchTest, UpdaterandomReadsAndWrites) {
  config_.reads = 200;
  BenchResult result = Run("updaterandom");
  EXPECT_EQ(result.operations, 600u);
  EXPECT_EQ(Count(result, OperationKind::kUpdate), 600u);
  EXPECT_EQ(result.lookup_count, 600u);
  // A record that is not there is written all the same.
  EXPECT_LT(result.found_count, 600u);
  EXPECT_EQ(result.written_bytes, 600 * RecordBytes());
  EXPECT_EQ(result.bytes, (600 + result.found_count) * RecordBytes());
  EXPECT_GT(Keys().size(), 200u);
  EXPECT_LT(*Keys().rbegin(), config_.num);
  Run("fillseq");
  EXPECT_EQ(Run("updaterandom").found_count, 600u);
}

TEST_F(DbBenchTest, ForeignValuesOfMixedRunsAreCorruption) {
  Run("fillseq");
  const std::string foreign(kValueBytes, 'x');
  for (uint64_t key = 0; key < config_.num; ++key) {
    ASSERT_TRUE(store_.Put(key, foreign.data()).ok());
  }
  for (const std::string benchmark : {"readrandomwriterandom", "updaterandom"}) {
    EXPECT_FALSE(Run(benchmark, Code::kCorruption).finished) << benchmark;
  }
}

TEST_F(DbBenchTest, SeekrandomwhilewritingHasAWriter) {
  Run("fillseq");
  config_.reads = 100;
  config_.seek_nexts = 2;
  const uint64_t puts_before = store_.put_count;
  const BenchResult result = Run("seekrandomwhilewriting");
  EXPECT_EQ(result.operations, 300u);
  EXPECT_EQ(Count(result, OperationKind::kSeek), 300u);
  EXPECT_EQ(result.found_count, 300u);
  ASSERT_EQ(result.thread_calls.size(), 4u);
  EXPECT_EQ(result.thread_calls.back(), store_.put_count - puts_before);
}

// What is replayed are the records that the store has.
TEST_F(DbBenchTest, MixedWritesCanBeReplayed) {
  config_.reads = 300;
  std::set<uint64_t> live;
  for (const std::string benchmark : {"fillsync", "readrandomwriterandom", "updaterandom",
                                      "seekrandomwhilewriting", "deleterandom"}) {
    const BenchResult result = Run(benchmark);
    ReplayWrites(config_, result, [&](uint64_t number, bool deleted) {
      deleted ? static_cast<void>(live.erase(number)) : static_cast<void>(live.insert(number));
    });
    EXPECT_EQ(live, Keys()) << benchmark;
  }
}

TEST_F(DbBenchTest, AWriteRateSlowsWrites) {
  config_.write_rate = 300;
  config_.writes = 60;
  // The last of 60 writes begins after 59 / 300 seconds.
  EXPECT_GT(Run("fillrandom").seconds, 0.19);
  EXPECT_GT(Run("overwrite").seconds, 0.19);
  // The lower one of two rates holds.
  config_.rate = 1e6;
  EXPECT_GT(Run("overwrite").seconds, 0.19);
  config_.write_rate = 1e6;
  config_.rate = 300;
  EXPECT_GT(Run("overwrite").seconds, 0.19);
}

// A thread would begin its second call after many minutes.
TEST_F(DbBenchTest, AWriteRateIsNotOneOfReadsOrDeletions) {
  config_.write_rate = 0.001;
  config_.time_limit_seconds = 60;
  for (const std::string benchmark : {"readrandom", "deleterandom", "updaterandom"}) {
    EXPECT_TRUE(Run(benchmark).finished) << benchmark;
  }
}

TEST_F(DbBenchTest, AWriteRateSlowsTheWriterBesideReaders) {
  Run("fillseq");
  config_.thread_count = 1;
  config_.reads = 20;
  config_.write_rate = 0.001;
  store_.before_get = [](uint64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  const BenchResult result = Run("readwhilewriting");
  EXPECT_EQ(result.operations, 20u);
  // The second write would begin a quarter of an hour later. The run does not wait for it.
  ASSERT_EQ(result.thread_calls.size(), 2u);
  EXPECT_LE(result.thread_calls.back(), 1u);
}

TEST_F(DbBenchTest, SpaceIsThatOfTheWrites) {
  config_.num = 10000;
  config_.thread_count = 2;
  config_.reads = 1000;
  const auto most = [&](const std::vector<std::string>& steps) {
    return MostRecords(config_, steps);
  };
  EXPECT_EQ(most({"fillsync"}), 10u);
  EXPECT_EQ(most({"fillseq", "updaterandom"}), 12000u);
  EXPECT_EQ(most({"fillseq", "readrandomwriterandom"}), 10200u);
  EXPECT_EQ(most({"fillseq", "seekrandomwhilewriting"}), 11000u);
  config_.writes = 300;
  EXPECT_EQ(most({"fillrandom", "overwrite"}), 600u);
}

TEST(DbBenchWordsTest, SayWhyAFlagHasNoMeaning) {
  for (const std::string flag : {"--cache_size", "--compression_type=none", "--bloom_bits=10",
                                 "--stats_interval_seconds=1", "--write_buffer_size=1"}) {
    EXPECT_FALSE(WhyNoFlag(flag).empty()) << flag;
  }
  for (const std::string flag : {"--num", "--nonsense", "cache_size", "--", ""}) {
    EXPECT_TRUE(WhyNoFlag(flag).empty()) << flag;
  }
}

TEST(DbBenchWordsTest, SayWhyABenchmarkCannotBeRun) {
  for (const std::string name : {"compactall", "waitforcompaction", "fill100K"}) {
    EXPECT_FALSE(WhyNoBenchmark(name).empty()) << name;
  }
  EXPECT_TRUE(WhyNoBenchmark("nonsense").empty());
  // What can be run needs no excuse.
  for (const std::string& name : BenchmarkNames())
    EXPECT_TRUE(WhyNoBenchmark(name).empty()) << name;
}

}  // namespace
}  // namespace engine_race::harness

// Benchmarks over a store in memory: what they write, read and find, how they end and are timed.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/bench/benchmark.h"
#include "harness/bench/timeline.h"
#include "harness/data/value_maker.h"
#include "test/harness/bench/memory_store.h"

namespace engine_race::harness {
namespace {

uint64_t TimelineSum(const BenchResult& result) {
  uint64_t sum = 0;
  for (const BenchSecond& second : result.timeline) sum += second.operations;
  return sum;
}

TEST_F(RunTest, FillseqWritesExactlyItsKeys) {
  const BenchResult result = Run("fillseq");
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.operations, config_.num);
  EXPECT_EQ(result.bytes, config_.num * RecordBytes());
  EXPECT_EQ(result.written_bytes, result.bytes);
  EXPECT_EQ(result.Latency().count(), config_.num);
  const std::set<uint64_t> keys = Keys();
  ASSERT_EQ(keys.size(), config_.num);
  EXPECT_EQ(*keys.begin(), 0u);
  EXPECT_EQ(*keys.rbegin(), config_.num - 1);
  const ValueMaker values(kBenchValueSeed);
  for (const auto& [key, value] : store_.Snapshot()) {
    uint64_t version = 0;
    EXPECT_TRUE(values.CheckAll(key, value.data(), &version)) << key;
  }
}

TEST_F(RunTest, SpreadKeysCoverTheWholeRange) {
  config_.key_layout = KeyLayout::kSpread;
  Run("filluniquerandom");
  const std::set<uint64_t> keys = Keys();
  EXPECT_EQ(keys.size(), config_.num);
  EXPECT_GT(*keys.rbegin(), ~uint64_t{0} / 100 * 99);
  EXPECT_EQ(Run("readmissing").found_count, 0u);
  EXPECT_EQ(Run("readrandom").found_count, config_.num * 3);
}

TEST_F(RunTest, FillrandomStaysWithinItsKeys) {
  EXPECT_EQ(Run("fillrandom").operations, config_.num);
  EXPECT_LT(*Keys().rbegin(), config_.num);
  EXPECT_LT(Keys().size(), config_.num);
}

TEST_F(RunTest, ReadrandomFindsWhatIsThere) {
  Run("fillseq");
  const BenchResult result = Run("readrandom");
  EXPECT_EQ(result.operations, config_.num * 3);
  EXPECT_EQ(result.lookup_count, result.operations);
  EXPECT_EQ(result.found_count, result.operations);
  EXPECT_EQ(result.bytes, result.operations * RecordBytes());
  EXPECT_EQ(result.written_bytes, 0u);
  config_.reads = 7;
  EXPECT_EQ(Run("readrandom").operations, 21u);
}

TEST_F(RunTest, ReadmissingFindsNothing) {
  Run("fillseq");
  const BenchResult result = Run("readmissing");
  EXPECT_EQ(result.operations, config_.num * 3);
  EXPECT_EQ(result.found_count, 0u);
  EXPECT_EQ(result.bytes, 0u);
}

// A store that was filled with a larger --num has the keys behind the last one.
TEST_F(RunTest, ReadmissingCountsWhatItFinds) {
  Run("fillseq");
  config_.num /= 2;
  const BenchResult result = Run("readmissing");
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.found_count, config_.num * 3);
}

TEST_F(RunTest, WalksVisitEveryRecordOnEveryThread) {
  Run("fillseq");
  for (const std::string benchmark : {"readseq", "readreverse", "scanall"}) {
    const BenchResult result = Run(benchmark);
    EXPECT_TRUE(result.finished) << benchmark;
    EXPECT_EQ(result.operations, config_.num * 3) << benchmark;
    EXPECT_EQ(result.bytes, config_.num * 3 * RecordBytes()) << benchmark;
  }
  config_.reads = 10;
  EXPECT_EQ(Run("readseq").operations, 30u);
}

TEST_F(RunTest, WalksOfAnEmptyStoreFinish) {
  for (const std::string benchmark : {"readseq", "readreverse", "scanall"}) {
    const BenchResult result = Run(benchmark);
    EXPECT_TRUE(result.finished) << benchmark;
    EXPECT_EQ(result.operations, 0u) << benchmark;
  }
}

TEST_F(RunTest, SeekrandomStepsOn) {
  Run("fillseq");
  config_.reads = 50;
  BenchResult result = Run("seekrandom");
  EXPECT_EQ(result.found_count, 150u);
  // As in db_bench, a seek without steps reads no value.
  EXPECT_EQ(result.bytes, 0u);
  config_.thread_count = 1;
  config_.num = 500;
  config_.seek_nexts = 3;
  result = Run("seekrandom");
  // Seeks near the last key have fewer steps.
  EXPECT_GT(result.bytes, 50 * 2 * RecordBytes());
  EXPECT_LE(result.bytes, 50 * 3 * RecordBytes());
}

TEST_F(RunTest, MultireadrandomReadsInBatches) {
  Run("fillseq");
  config_.thread_count = 1;
  config_.reads = 100;
  config_.batch_size = 32;
  const BenchResult result = Run("multireadrandom");
  EXPECT_EQ(result.operations, 100u);
  EXPECT_EQ(result.found_count, 100u);
  EXPECT_EQ(result.Latency().count(), 4u);
  EXPECT_EQ(store_.batch_sizes, (std::map<size_t, uint64_t>{{32, 3}, {4, 1}}));
}

TEST_F(RunTest, RangesHaveTheirSize) {
  Run("fillseq");
  config_.reads = 20;
  const BenchResult result = Run("select_random_ranges");
  EXPECT_EQ(result.operations, 60u);
  // Ten ranges of five keys; those at the end of the store are shorter.
  EXPECT_GT(result.bytes, 60 * 10 * 4 * 8u);
  EXPECT_LE(result.bytes, 60 * 10 * 5 * 8u);
  config_.range_size = 20;
  EXPECT_GT(Run("select_random_ranges").bytes, 60 * 10 * 15 * 8u);
  config_.range_size = 1;
  config_.range_count = 3;
  EXPECT_EQ(Run("select_random_ranges").bytes, 60 * 3 * 8u);
}

TEST_F(RunTest, TheWriterBesideReadersIsNotCounted) {
  Run("fillseq");
  const uint64_t puts_before = store_.put_count;
  const BenchResult result = Run("readwhilewriting");
  const uint64_t puts = store_.put_count - puts_before;
  EXPECT_EQ(result.operations, config_.num * 3);
  EXPECT_EQ(result.found_count, result.operations);
  EXPECT_EQ(result.bytes, result.operations * RecordBytes());
  EXPECT_EQ(result.written_bytes, puts * RecordBytes());
  ASSERT_EQ(result.thread_calls.size(), 4u);
  EXPECT_EQ(result.thread_calls.back(), puts);
}

// What is replayed are the records that the store has.
TEST_F(RunTest, WritesCanBeReplayed) {
  std::set<uint64_t> live;
  for (const std::string benchmark :
       {"fillrandom", "deleterandom", "overwrite", "readwhilewriting", "readrandom"}) {
    const BenchResult result = Run(benchmark);
    ReplayWrites(config_, result, [&](uint64_t number, bool deleted) {
      deleted ? static_cast<void>(live.erase(number)) : static_cast<void>(live.insert(number));
    });
    EXPECT_EQ(live, Keys()) << benchmark;
  }
}

TEST_F(RunTest, ForeignValuesAreCorruption) {
  Run("fillseq");
  const std::string foreign(kValueBytes, 'x');
  ASSERT_TRUE(store_.Put(7, foreign.data()).ok());
  for (const std::string benchmark : {"readrandom", "readseq", "readreverse", "scanall"}) {
    config_.checks_values = true;
    EXPECT_FALSE(Run(benchmark, Code::kCorruption).finished) << benchmark;
    config_.checks_values = false;
    EXPECT_TRUE(Run(benchmark).finished) << benchmark;
  }
}

TEST_F(RunTest, AFailedScanHasWhatItVisited) {
  Run("fillseq");
  const std::string foreign(kValueBytes, 'x');
  ASSERT_TRUE(store_.Put(100, foreign.data()).ok());
  config_.thread_count = 1;
  const BenchResult result = Run("scanall", Code::kCorruption);
  EXPECT_EQ(result.operations, 100u);
  EXPECT_EQ(TimelineSum(result), 100u);
}

// 500 is no multiple of the records between two looks.
TEST_F(RunTest, TheTimelineOfAScanIsWhole) {
  Run("fillseq");
  EXPECT_EQ(TimelineSum(Run("scanall")), config_.num * 3);
}

TEST_F(RunTest, ValuesThatCannotBeReadAreAnError) {
  Run("fillseq");
  store_.hides_values = true;
  EXPECT_FALSE(Run("readseq", Code::kIOError).finished);
}

TEST_F(RunTest, ATimeLimitEndsARun) {
  Run("fillseq");
  store_.before_get = [](uint64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  config_.time_limit_seconds = 0.1;
  BenchResult result = Run("readrandom");
  EXPECT_FALSE(result.finished);
  // 500 reads of a thread take half a second at least.
  EXPECT_LT(result.operations, config_.num * 3);
  // A duration that is shorter than the limit is no failure.
  config_.duration_seconds = 0.05;
  result = Run("readrandom");
  EXPECT_TRUE(result.finished);
}

TEST_F(RunTest, ADurationTakesThePlaceOfACount) {
  Run("fillseq");
  config_.reads = 1;
  config_.duration_seconds = 0.2;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(Run("readrandom").finished);
  // One read would end at once.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
  // Benchmarks with an end have no duration.
  EXPECT_EQ(Run("fillseq").operations, config_.num);
}

// One read in the beginning takes 300 ms. The reads that should have begun meanwhile are late, and
// their latency counts from when they should have begun: at least 100 ms for 200 of them.
TEST_F(RunTest, ARateCountsFromTheIntendedTime) {
  config_.thread_count = 1;
  Run("fillseq");
  config_.reads = 500;
  config_.rate = 1000;
  store_.get_count = 0;
  store_.before_get = [](uint64_t count) {
    if (count == 10) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  };
  const LatencyHistogram latency = Run("readrandom").Latency();
  ASSERT_EQ(latency.count(), 500u);
  EXPECT_GT(latency.PercentileNs(1 - 150.0 / 500), 100000000u);
}

TEST(PaceTest, ThreadsTakeTurnsInBatches) {
  const Pace first(/*rate=*/1000, /*thread_count=*/2, /*thread=*/0, /*operations=*/10);
  const Pace second(/*rate=*/1000, /*thread_count=*/2, /*thread=*/1, /*operations=*/10);
  EXPECT_EQ(first.StartNs(0), 0u);
  EXPECT_EQ(second.StartNs(0), 10000000u);
  EXPECT_EQ(first.StartNs(1), 20000000u);
  EXPECT_EQ(second.StartNs(3), 70000000u);
  EXPECT_FALSE(Pace(/*rate=*/0, 2, 1, 10).has_rate());
}

TEST_F(RunTest, ARateSlowsDown) {
  Run("fillseq");
  config_.reads = 20;
  config_.rate = 300;
  // The last of 60 reads begins after 59 / 300 seconds.
  EXPECT_GT(Run("readrandom").seconds, 0.19);
}

TEST(SecondNotesTest, SecondsAreToldAndNoted) {
  std::vector<std::pair<double, uint64_t>> told;
  const OnSecondFn tell = [&](double seconds, uint64_t operations) {
    told.emplace_back(seconds, operations);
  };
  std::vector<BenchSecond> timeline;
  SecondNotes notes(tell, &timeline);
  notes.Note(1.25, 100);
  notes.Note(2.0, 100);
  notes.Note(3.5, 400);
  notes.End(3.75, 410);
  EXPECT_EQ(told, (std::vector<std::pair<double, uint64_t>>{{1.25, 100}, {2.0, 100}, {3.5, 400}}));
  ASSERT_EQ(timeline.size(), 4u);
  EXPECT_EQ(timeline[0].operations, 100u);
  EXPECT_EQ(timeline[1].operations, 0u);
  EXPECT_EQ(timeline[2].operations, 300u);
  EXPECT_EQ(timeline[3].operations, 10u);
  EXPECT_EQ(timeline[3].seconds, 3.75);
  notes.End(4, 410);
  EXPECT_EQ(timeline.size(), 4u);
}

TEST_F(RunTest, TheTimelineHasAllOperations) {
  EXPECT_EQ(TimelineSum(Run("fillseq")), config_.num);
  EXPECT_EQ(TimelineSum(Run("readrandom")), config_.num * 3);
}

TEST_F(RunTest, BadConfigurationsAreRefused) {
  Run("nonsense", Code::kInvalidArgument);
  config_.num = 0;
  Run("fillseq", Code::kInvalidArgument);
  config_.num = kMaxBenchRecords + 1;
  Run("fillseq", Code::kInvalidArgument);
  config_.num = 1;
  config_.thread_count = 0;
  Run("fillseq", Code::kInvalidArgument);
  config_.thread_count = 1;
  config_.batch_size = 0;
  Run("multireadrandom", Code::kInvalidArgument);
  config_.batch_size = 1;
  config_.range_count = 0;
  Run("select_random_ranges", Code::kInvalidArgument);
  config_.range_count = 1;
  config_.read_percent = 101;
  Run("readrandomwriterandom", Code::kInvalidArgument);
}

TEST(BenchmarkTest, NamesAreFound) {
  for (const std::string& name : BenchmarkNames()) {
    const BenchTraits* const traits = FindBenchmark(name);
    ASSERT_NE(traits, nullptr) << name;
    EXPECT_EQ(traits->name, name);
    EXPECT_EQ(traits->is_ycsb, name.starts_with("ycsb")) << name;
  }
  EXPECT_EQ(FindBenchmark("fill"), nullptr);
}

}  // namespace
}  // namespace engine_race::harness

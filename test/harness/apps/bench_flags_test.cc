// Flags of db_bench and sysbench that bin/bench takes, and those that it explains.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "test/harness/apps/bench_fixture.h"

namespace engine_race::harness {
namespace {

class BenchFlagsTest : public BenchProgramTest {
 protected:
  // What the program prints to both of its outputs.
  ChildResult BenchWithErrors(const std::vector<std::string>& flags) const {
    std::vector<std::string> args = {program_, "--db=" + dir_, "--num=200", "--threads=3"};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunWithErrors(args);
  }

  // The counters that --statistics prints after each benchmark, in their order.
  static std::vector<uint64_t> Counters(const std::string& output, const std::string& name) {
    std::vector<uint64_t> values;
    const std::regex line("\n" + name + " +([0-9]+)");
    for (std::sregex_iterator at(output.begin(), output.end(), line), end; at != end; ++at) {
      values.push_back(std::stoull((*at)[1]));
    }
    return values;
  }
};

TEST_F(BenchFlagsTest, FillsyncAloneIsDurable) {
  const ChildResult run = Bench({"--benchmarks=fillsync,overwrite,fillsync,readrandom",
                                 "--num=5000", "--reads=10", "--statistics"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const std::vector<uint64_t> durable = Counters(run.output, "durable_write_count");
  ASSERT_EQ(durable.size(), 4u) << run.output;
  EXPECT_EQ(durable[0], 5u);
  EXPECT_EQ(durable[1], 0u);
  EXPECT_EQ(durable[2], 5u);
  const nlohmann::json report = Report();
  EXPECT_EQ(report["runs"][0]["operations"], 5);
  EXPECT_EQ(report["runs"][1]["operations"], 5000);
  // The store is described with the options that were asked for.
  EXPECT_FALSE(report["stores"]["engine_race"]["options"].contains("sync_mode"));
  // Reopening has kept its records, and the second fill has begun with none.
  EXPECT_LE(Keys().size(), 5u);
  EXPECT_GT(Keys().size(), 0u);
}

TEST_F(BenchFlagsTest, SyncMakesWritesDurable) {
  ChildResult run = Bench({"--benchmarks=fillseq", "--sync=1", "--statistics"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Counters(run.output, "durable_write_count"), std::vector<uint64_t>{200});
  EXPECT_EQ(Report()["stores"]["engine_race"]["options"]["sync_mode"], "group");
  EXPECT_EQ(Report()["config"]["sync"], true);
  run = Bench({"--benchmarks=fillseq", "--sync", "--options", "sync_mode=every_write"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Report()["stores"]["engine_race"]["options"]["sync_mode"], "every_write");
  EXPECT_EQ(Bench({"--benchmarks=fillseq", "--sync", "--options", "sync_mode=none"}).exit_code, 2);
}

TEST_F(BenchFlagsTest, NumbersReachTheBenchmarks) {
  const ChildResult run =
      Bench({"--benchmarks=fillseq,overwrite,readrandomwriterandom,select_random_ranges",
             "--writes=50", "--reads=100", "--readwritepercent=60", "--number_of_ranges=3",
             "--range_size=1", "--benchmark_write_rate_limit=1000000000"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json report = Report();
  const auto count = [&](size_t run, const char* kind) {
    return report.at("runs").at(run).at("latency_by_kind_ns").at(kind).at("count").get<uint64_t>();
  };
  EXPECT_EQ(report["runs"][0]["operations"], 50);
  EXPECT_EQ(report["runs"][1]["operations"], 50);
  EXPECT_EQ(count(2, "read"), 180u);
  EXPECT_EQ(count(2, "write"), 120u);
  EXPECT_EQ(count(3, "scan"), 300u);
  EXPECT_LE(report["runs"][3]["bytes"], 300 * 3 * 8);
  EXPECT_GT(report["runs"][3]["bytes"], 0);
  for (const char* name :
       {"writes", "readwritepercent", "number_of_ranges", "benchmark_write_rate_limit"}) {
    EXPECT_GT(report["config"][name], 0) << name;
  }
}

TEST_F(BenchFlagsTest, TakesValuesOfAnySize) {
  const std::string flags = "--benchmarks=fillseq,readrandom,multireadrandom,readseq,scanall";
  for (const std::string size : {"8", "100", "1536", "16384"}) {
    for (const std::string& flag : {"--value_size=" + size, "--options=value_bytes=" + size}) {
      const ChildResult run = Bench({flags, flag});
      ASSERT_EQ(run.exit_code, 0) << flag << run.output;
      EXPECT_NE(run.output.find("Values:     " + size + " bytes each"), std::string::npos) << flag;
      const nlohmann::json report = Report();
      EXPECT_EQ(std::to_string(report["config"]["value_size"].get<int>()), size) << flag;
      EXPECT_EQ(report["runs"][0]["bytes"], 200 * (8 + std::stoi(size))) << flag;
    }
  }
  for (const std::string bad :
       {"--value_size=7", "--value_size=1048577", "--options=value_bytes=0"}) {
    EXPECT_EQ(Bench({flags, bad}).exit_code, 2) << bad;
  }
}

TEST_F(BenchFlagsTest, MinusOneIsTheNumberOfRecords) {
  ASSERT_EQ(Bench({"--benchmarks=fillseq,readrandom", "--writes=-1", "--reads=-1"}).exit_code, 0);
  EXPECT_EQ(Report()["runs"][0]["operations"], 200);
  EXPECT_EQ(Report()["runs"][1]["operations"], 600);
}

// A limit of ten records a second: 5 of them take at least 0.4 s.
TEST_F(BenchFlagsTest, AWriteLimitIsInBytes) {
  ASSERT_EQ(
      Bench({"--benchmarks=fillseq", "--writes=5", "--benchmark_write_rate_limit=41040"}).exit_code,
      0);
  EXPECT_GT(Report()["runs"][0]["seconds"], 0.39);
}

TEST_F(BenchFlagsTest, SaysThatThreadsShareTheWrites) {
  const std::string note = "\nNote:       threads share the writes; in db_bench each thread";
  const ChildResult shared = Bench({"--benchmarks=fillseq,readrandom"});
  EXPECT_NE(shared.output.find(note), std::string::npos) << shared.output;
  EXPECT_EQ(Text("bench.json").find("db_bench"), std::string::npos);
  EXPECT_EQ(Text("bench.csv").find("Note"), std::string::npos);
  EXPECT_EQ(Bench({"--benchmarks=fillseq", "--threads=1"}).output.find(note), std::string::npos);
  EXPECT_EQ(Bench({"--benchmarks=readrandom,ycsbc"}).output.find(note), std::string::npos);
}

TEST_F(BenchFlagsTest, ExplainsWhatDbBenchHasAlone) {
  const std::vector<std::vector<std::string>> reasons = {
      {"--cache_size=1000000", "memory_budget_bytes"},
      {"--compression_type=none", "stored as they are"},
      {"--stats_interval_seconds=1", "--report_interval_seconds"},
      {"--disable_auto_compactions=1", "reclaim=off"},
      {"--benchmarks=fillseq,compactall", "compact gives back all space"},
      {"--benchmarks=waitforcompaction", "compact gives back all space"}};
  for (const auto& reason : reasons) {
    const ChildResult run = BenchWithErrors({reason[0]});
    EXPECT_EQ(run.exit_code, 2) << reason[0];
    EXPECT_NE(run.output.find(reason[1]), std::string::npos) << reason[0] << run.output;
  }
  const ChildResult run = BenchWithErrors({"--benchmarks=nonsense"});
  EXPECT_NE(run.output.find("there are fillseq"), std::string::npos) << run.output;
  for (const std::string flag : {"--readwritepercent=0", "--readwritepercent=100",
                                 "--number_of_ranges=0", "--writes=-2", "--reads=-2"}) {
    EXPECT_EQ(BenchWithErrors({flag}).exit_code, 2) << flag;
  }
}

}  // namespace
}  // namespace engine_race::harness

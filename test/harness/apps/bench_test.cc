// The whole bench program with few records: every benchmark, its reports, and bad flags.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "test/harness/apps/bench_fixture.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

// What db_bench prints, so that scripts for it read it.
std::regex ReportLine(const std::string& benchmark) {
  return std::regex("(^|\n)" + benchmark +
                    " *: +[0-9]+\\.[0-9]{3} micros/op [0-9]+ ops/sec [0-9]+\\.[0-9]{3} seconds "
                    "[0-9]+ operations;( +[0-9]+\\.[0-9] MB/s)?( \\([0-9]+ of [0-9]+ found\\))?\n");
}

TEST_F(BenchProgramTest, RunsEveryBenchmark) {
  const std::vector<std::string> names = {"fillseq",
                                          "filluniquerandom",
                                          "fillrandom",
                                          "fillsync",
                                          "overwrite",
                                          "readrandom",
                                          "readmissing",
                                          "readseq",
                                          "readreverse",
                                          "scanall",
                                          "seekrandom",
                                          "multireadrandom",
                                          "readwhilewriting",
                                          "seekrandomwhilewriting",
                                          "readrandomwriterandom",
                                          "updaterandom",
                                          "ycsbload",
                                          "ycsba",
                                          "ycsbb",
                                          "ycsbc",
                                          "ycsbd",
                                          "ycsbe",
                                          "ycsbf",
                                          "select_random_ranges",
                                          "sync",
                                          "compact",
                                          "deleterandom"};
  std::string all = "stats";
  for (const std::string& name : names) all += "," + name;
  const ChildResult run = Bench({"--benchmarks=" + all});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json report = Report();
  ASSERT_TRUE(report.is_object());
  ASSERT_EQ(report["runs"].size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_TRUE(std::regex_search(run.output, ReportLine(names[i]))) << names[i] << run.output;
    EXPECT_EQ(report["runs"][i]["phase"], names[i]);
    EXPECT_TRUE(report["runs"][i]["finished"]) << names[i];
    EXPECT_GT(report["runs"][i]["operations"], 0) << names[i];
  }
}

TEST_F(BenchProgramTest, FillseqWritesTheFirstKeys) {
  ASSERT_EQ(Bench({"--benchmarks=fillseq"}).exit_code, 0);
  const std::vector<uint64_t> keys = Keys();
  ASSERT_EQ(keys.size(), 200u);
  for (uint64_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], i);
}

TEST_F(BenchProgramTest, AFillBeginsWithAFreshStore) {
  ASSERT_EQ(Bench({"--benchmarks=fillseq,overwrite"}).exit_code, 0);
  ASSERT_EQ(Bench({"--benchmarks=fillseq", "--num=50"}).exit_code, 0);
  EXPECT_EQ(Keys().size(), 50u);
  // Within one program, too.
  ASSERT_EQ(Bench({"--benchmarks=ycsba,fillseq,readrandom"}).exit_code, 0);
  EXPECT_EQ(Keys().size(), 200u);
  EXPECT_EQ(Report()["runs"][3]["operations"], 600);
}

TEST_F(BenchProgramTest, AnExistingStoreIsKept) {
  ASSERT_EQ(Bench({"--benchmarks=fillseq", "--keys=spread"}).exit_code, 0);
  const std::vector<uint64_t> keys = Keys();
  const ChildResult run =
      Bench({"--benchmarks=fillseq,readrandom,readseq", "--keys=spread", "--use_existing_db=1"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("fillseq      : skipped (--use_existing_db is true)\n"),
            std::string::npos)
      << run.output;
  EXPECT_NE(run.output.find("(600 of 600 found)"), std::string::npos) << run.output;
  EXPECT_EQ(Keys(), keys);
  ASSERT_EQ(Report()["runs"].size(), 2u);
  // What lay there before is not counted, so the space is not compared with it.
  EXPECT_TRUE(Report()["runs"][0]["space_amplification"].is_null());
  // The records of YCSB are other ones.
  EXPECT_EQ(Bench({"--benchmarks=ycsba", "--use_existing_db"}).exit_code, 2);
}

TEST_F(BenchProgramTest, CompactGivesSpaceBack) {
  const ChildResult run = Bench({"--benchmarks=fillseq,overwrite,overwrite,compact,fillseq",
                                 "--num=3000", "--options", "reclaim=off"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json runs = Report()["runs"];
  // The last one begins with a fresh store, so that all files of the other one are known.
  ASSERT_EQ(runs.size(), 5u);
  EXPECT_LT(runs[3]["space_amplification"], runs[2]["space_amplification"]);
}

TEST_F(BenchProgramTest, JsonHasEveryField) {
  ASSERT_EQ(Bench({"--benchmarks=fillrandom,readrandom,deleterandom,readrandom"}).exit_code, 0);
  const nlohmann::json report = Report();
  EXPECT_EQ(report["kind"], "bench");
  for (const char* name :
       {"cpu", "cpu_count", "memory_bytes", "kernel", "file_system", "free_disk_bytes", "git_hash",
        "device", "device_bytes_from", "memory_limit_bytes"}) {
    EXPECT_TRUE(report["machine"].contains(name)) << name;
  }
  EXPECT_TRUE(std::regex_match(report["machine"]["git_hash"].get<std::string>(),
                               std::regex("[0-9a-f]{40}(-dirty)?|unknown")));
  EXPECT_EQ(report["config"]["num"], 200);
  EXPECT_EQ(report["config"]["benchmarks"].size(), 4u);
  ASSERT_EQ(report["runs"].size(), 4u);
  for (const nlohmann::json& run : report["runs"]) {
    EXPECT_EQ(run["store"], "engine_race");
    EXPECT_EQ(run["threads"], 3);
    for (const char* name : {"phase", "round", "operations", "bytes", "seconds", "operations_per_s",
                             "finished", "latency_ns", "timeline", "cpu_user_s", "cpu_system_s",
                             "rss_peak_bytes", "device_read_bytes", "device_written_bytes",
                             "write_amplification", "space_amplification"}) {
      EXPECT_TRUE(run.contains(name)) << name;
    }
    EXPECT_GT(run["rss_peak_bytes"], 0);
    EXPECT_GT(run["space_amplification"], 0);
  }
  // A store in memory writes to no device.
  EXPECT_EQ(report["runs"][0]["write_amplification"].is_number(),
            !report["machine"]["device"].is_null());
  EXPECT_TRUE(report["runs"][1]["write_amplification"].is_null());
  EXPECT_TRUE(report["runs"][2]["write_amplification"].is_null());
  EXPECT_EQ(report["runs"][3]["round"], 1);
  EXPECT_TRUE(report["stores"]["engine_race"].contains("version"));
  uint64_t record_count = 0;
  for (const nlohmann::json& count : report["bucket_fill"]) record_count += count.get<uint64_t>();
  EXPECT_EQ(record_count, 400u);
  EXPECT_EQ(report["summary"].size(), 3u);
  // A line of names and one for each run.
  const std::string csv = Text("bench.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
}

TEST_F(BenchProgramTest, ReadmissingFindsNothing) {
  for (const std::string keys : {"dense", "spread"}) {
    const ChildResult run = Bench({"--benchmarks=fillseq,readmissing", "--keys=" + keys});
    ASSERT_EQ(run.exit_code, 0);
    EXPECT_NE(run.output.find("(0 of 600 found)"), std::string::npos) << run.output;
  }
}

TEST_F(BenchProgramTest, PrintsPercentilesAndStatistics) {
  const ChildResult run =
      Bench({"--benchmarks=fillseq,ycsba,stats", "--histogram=1", "--statistics=true"});
  ASSERT_EQ(run.exit_code, 0);
  EXPECT_NE(run.output.find("Microseconds per write:\n"), std::string::npos);
  EXPECT_NE(run.output.find("Microseconds per update:\n"), std::string::npos);
  EXPECT_NE(run.output.find("Microseconds per read:\n"), std::string::npos);
  EXPECT_NE(run.output.find("\nPercentiles: P50: "), std::string::npos);
  EXPECT_NE(run.output.find("STATISTICS:\nread_count "), std::string::npos);
  EXPECT_NE(run.output.find("\nrecord_count                200\n"), std::string::npos);
  // No progress in a pipe.
  EXPECT_EQ(run.output.find('\r'), std::string::npos);
}

TEST_F(BenchProgramTest, WritesAReportFile) {
  const ChildResult run =
      Bench({"--benchmarks=fillseq,readrandom", "--duration=2.2", "--report_interval_seconds=1",
             "--report_file=" + temp_.Join("report.csv")});
  ASSERT_EQ(run.exit_code, 0);
  // A busy machine may count more seconds. All of the benches' operations are in the timeline.
  EXPECT_TRUE(std::regex_match(Text("report.csv"),
                               std::regex("secs_elapsed,interval_qps\n([0-9]+,[0-9]+\n)+")))
      << Text("report.csv");
  const nlohmann::json report = Report();
  for (const nlohmann::json& one : report["runs"]) {
    uint64_t sum = 0;
    for (const nlohmann::json& second : one["timeline"])
      sum += second["operations"].get<uint64_t>();
    EXPECT_EQ(sum, one["operations"]);
  }
}

// `bench | head -1` closes the pipe early. The session ends in order.
TEST_F(BenchProgramTest, AClosedPipeLeavesNoStore) {
  const fs::path before = fs::current_path();
  fs::create_directory(temp_.Join("cwd"));
  fs::current_path(temp_.Join("cwd"));
  // An absolute path on the right stays as it is.
  const std::string program = before / program_;
  int pipe_fds[2] = {-1, -1};
  ASSERT_EQ(pipe(pipe_fds), 0);
  close(pipe_fds[0]);
  RunChild({"bash", "-c",
            program + " --num=200 --benchmarks=fillseq,readrandom >&" +
                std::to_string(pipe_fds[1]) + " 2> err; echo $? > code"});
  close(pipe_fds[1]);
  fs::current_path(before);
  EXPECT_EQ(Text("cwd/code"), "1\n");
  EXPECT_NE(Text("cwd/err").find("cannot print"), std::string::npos);
  for (const auto& entry : fs::directory_iterator(temp_.Join("cwd"))) {
    EXPECT_FALSE(entry.is_directory()) << entry.path();
  }
}

TEST_F(BenchProgramTest, AStoreInUseIsLeftAlone) {
  ASSERT_EQ(Bench({"--benchmarks=fillseq"}).exit_code, 0);
  {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open({}, dir_, &store).ok());
    EXPECT_EQ(Bench({"--benchmarks=fillseq", "--num=50"}).exit_code, 2);
  }
  EXPECT_EQ(Keys().size(), 200u);
}

TEST_F(BenchProgramTest, AnImplicitLoadHasNoTimeLimit) {
  const ChildResult run = Bench({"--benchmarks=ycsba", "--num=20000", "--threads=1", "--reads=10",
                                 "--time_limit=0.001", "--rate=100000"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Report()["runs"][0]["phase"], "ycsbload");
  EXPECT_TRUE(Report()["runs"][0]["finished"]);
  // One that was asked for has, and then there is nothing to run over.
  EXPECT_EQ(Bench({"--benchmarks=ycsbload,ycsba", "--num=100000", "--time_limit=0.001"}).exit_code,
            1);
  EXPECT_EQ(Report()["runs"].size(), 1u);
}

TEST_F(BenchProgramTest, ValuePathsAreFilledAndEmptied) {
  const std::string paths = "paths=" + temp_.Join("one") + ":" + temp_.Join("two");
  for (int round = 0; round < 2; ++round) {
    const ChildResult run = Bench({"--benchmarks=fillseq,fillseq", "--options", paths});
    ASSERT_EQ(run.exit_code, 0) << run.output;
  }
  EXPECT_TRUE(fs::exists(temp_.Join("one/value_00")));
  // Another store may not take them.
  EXPECT_EQ(Bench({"--db=" + temp_.Join("other"), "--options", paths}).exit_code, 2);
  EXPECT_EQ(Keys().size(), 200u);
}

TEST_F(BenchProgramTest, TheCsvIsWrittenWithoutTheJson) {
  const ChildResult run = Bench({"--benchmarks=fillseq", "--json=/dev/full"});
  EXPECT_EQ(run.exit_code, 2);
  const std::string csv = Text("bench.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

TEST_F(BenchProgramTest, ATimeLimitIsMarked) {
  const ChildResult run =
      Bench({"--benchmarks=fillseq,readrandom", "--reads=1000000000", "--time_limit=0.2"});
  ASSERT_EQ(run.exit_code, 0);
  EXPECT_NE(run.output.find(" (not finished)\n"), std::string::npos) << run.output;
  EXPECT_FALSE(Report()["runs"][1]["finished"]);
  EXPECT_FALSE(Report()["summary"][1]["finished"]);
}

TEST_F(BenchProgramTest, OptionsReachTheEngine) {
  const ChildResult run = Bench(
      {"--benchmarks=fillseq", "--options", "bucket_count=64", "--options", "sync_mode=group"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Report()["bucket_fill"].size(), 64u);
  EXPECT_EQ(Report()["stores"]["engine_race"]["options"]["sync_mode"], "group");
}

TEST_F(BenchProgramTest, BadFlagsAreRefused) {
  ASSERT_EQ(Bench({"--benchmarks=fillseq"}).exit_code, 0);
  const std::vector<std::vector<std::string>> wrong = {
      {"--benchmarks=fillseq,nonsense"},
      {"--key_size=16"},
      {"--value_size=7"},
      {"--options", "nonsense=1"},
      {"--options", "bucket_count"},
      {"--options", "bucket_count=3"},
      {"--report_interval_seconds=1", "--report_file=" + temp_.Join("no/report.csv")},
      {"--num=1000000000000"},
      {"--benchmarks=fillseq,ycsba", "--reads=1000000000000"},
      {"--json=" + temp_.Join("store/manifest/report.json")},
      {"--db=" + temp_.Join("missing"), "--use_existing_db"},
      {"--db=" + temp_.Join("."), "--benchmarks=fillseq"},
  };
  for (const auto& flags : wrong) EXPECT_EQ(Bench(flags).exit_code, 2) << flags[0];
  for (const std::string flag : {"--nonsense", "--num=0", "--threads=0", "--distribution=nonsense",
                                 "--keys=nonsense", "--duration=-1", "--batch_size=0"}) {
    EXPECT_EQ(Bench({flag}).exit_code, 2) << flag;
  }
  // None of them has touched the store.
  EXPECT_EQ(Keys().size(), 200u);
  EXPECT_FALSE(fs::exists(temp_.Join("missing")));
}

TEST_F(BenchProgramTest, DamagedValuesAreAnError) {
  ASSERT_EQ(Bench({"--benchmarks=fillseq"}).exit_code, 0);
  {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open({}, dir_, &store).ok());
    const std::string foreign(kValueBytes, 'x');
    ASSERT_TRUE(store->Write(KeyBytes(5).view(), foreign).ok());
  }
  EXPECT_EQ(Bench({"--benchmarks=readseq", "--use_existing_db"}).exit_code, 1);
  EXPECT_FALSE(Report()["runs"][0]["finished"]);
  EXPECT_EQ(Bench({"--benchmarks=readseq", "--use_existing_db", "--check_values=false"}).exit_code,
            0);
}

}  // namespace
}  // namespace engine_race::harness

// The figures of runs as text, JSON and CSV.
#include "harness/bench/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "harness/bench/timeline.h"
#include "harness/measure/table.h"
#include "harness/system/disk.h"
#include "test/device_node.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

BenchResult SomeResult() {
  BenchResult result;
  result.benchmark = "fillrandom";
  result.thread_count = 2;
  result.operations = 1000;
  result.bytes = 1000 * RecordBytes();
  result.seconds = 0.5;
  result.thread_seconds = 1;
  result.finished = true;
  for (uint64_t i = 1; i <= 100; ++i) {
    result.latencies[static_cast<size_t>(OperationKind::kWrite)].Add(i * 1000);
  }
  result.timeline = {{0.25, 400}, {0.5, 600}};
  return result;
}

TEST(BenchLineTest, IsDbBenchs) {
  BenchResult result = SomeResult();
  EXPECT_EQ(BenchLine(result),
            "fillrandom   :    1000.000 micros/op 2000 ops/sec 0.500 seconds 1000 operations;"
            "    7.8 MB/s\n");
  result.lookup_count = 1000;
  result.found_count = 632;
  EXPECT_TRUE(BenchLine(result).ends_with("    7.8 MB/s (632 of 1000 found)\n"));
  result.finished = false;
  EXPECT_TRUE(BenchLine(result).ends_with(" (not finished)\n"));
}

TEST(BenchLineTest, NothingDoneIsALineToo) {
  BenchResult result;
  result.benchmark = "readseq";
  EXPECT_TRUE(std::regex_search(BenchLine(result),
                                std::regex("^readseq      : +0.000 micros/op 0 ops/sec")));
  EXPECT_EQ(SkippedLine("fillseq"), "fillseq      : skipped (--use_existing_db is true)\n");
}

TEST(PercentileTextTest, HasALineOfPercentiles) {
  const std::string text = PercentileText(SomeResult());
  std::smatch found;
  // The lines of db_bench's histograms, down to their spaces.
  ASSERT_TRUE(std::regex_match(
      text, found,
      std::regex("Microseconds per write:\n"
                 "Count: 100 Average: 50\\.5000  StdDev: ([0-9]+\\.[0-9]{2})\n"
                 "Min: 1  Median: ([0-9]+\\.[0-9]{4})  Max: 100\n"
                 "Percentiles: P50: ([0-9.]+) P75: ([0-9.]+) P99: ([0-9.]+) P99.9: ([0-9.]+) "
                 "P99.99: ([0-9.]+)\n"
                 "------------------------------------------------------\n\n")))
      << text;
  EXPECT_NEAR(std::stod(found[1]), 28.87, 0.5);
  EXPECT_NEAR(std::stod(found[2]), 50, 1);
  EXPECT_NEAR(std::stod(found[3]), 50, 1);
  EXPECT_NEAR(std::stod(found[4]), 75, 2);
  EXPECT_NEAR(std::stod(found[5]), 99, 2);
  EXPECT_NEAR(std::stod(found[7]), 100, 2);
  EXPECT_EQ(PercentileText(BenchResult()), "");
}

TEST(PercentileTextTest, EqualLatenciesHaveNoDeviation) {
  BenchResult result;
  for (int i = 0; i < 7; ++i) result.latencies[0].Add(31000);
  const std::string text = PercentileText(result);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(text, found, std::regex("StdDev: ([0-9.]+)\nMin: ([0-9]+) ")));
  // To within a step of the histogram, a thirty-second of the value.
  EXPECT_LE(std::stod(found[1]), 31.0 / 32);
  EXPECT_NEAR(std::stod(found[2]), 31, 1);
  // A single latency has none at all.
  result.latencies[0] = {};
  result.latencies[0].Add(31000);
  EXPECT_NE(PercentileText(result).find("StdDev: 0.00\n"), std::string::npos);
}

TEST(RunJsonTest, HasEveryField) {
  RunCosts costs;
  costs.device = DeviceBytes{10, 8208000};
  costs.write_amplification = 2;
  costs.rss_peak_bytes = 77;
  const nlohmann::json run = RunJson("engine_race", 1, SomeResult(), costs);
  const nlohmann::json expected = {{"store", "engine_race"},
                                   {"phase", "fillrandom"},
                                   {"round", 1},
                                   {"threads", 2},
                                   {"operations", 1000},
                                   {"bytes", 4104000},
                                   {"seconds", 0.5},
                                   {"operations_per_s", 2000.0},
                                   {"finished", true},
                                   {"cpu_user_s", 0.0},
                                   {"cpu_system_s", 0.0},
                                   {"rss_peak_bytes", 77},
                                   {"device_read_bytes", 10},
                                   {"device_written_bytes", 8208000},
                                   {"write_amplification", 2.0},
                                   {"space_amplification", nullptr}};
  for (const auto& [name, value] : expected.items()) EXPECT_EQ(run.at(name), value) << name;
  for (const char* name : {"count", "mean", "stddev", "min", "p50", "p75", "p90", "p95", "p99",
                           "p999", "p9999", "max"}) {
    EXPECT_GT(run["latency_ns"][name], 0) << name;
  }
  EXPECT_EQ(run["timeline"][1], nlohmann::json({{"s", 0.5}, {"operations", 600}}));
}

TEST(RunJsonTest, HasTheLatenciesOfEachKind) {
  BenchResult result = SomeResult();
  for (uint64_t i = 1; i <= 100; ++i) {
    result.latencies[static_cast<size_t>(OperationKind::kScan)].Add(i * 1000000);
  }
  const nlohmann::json run = RunJson("engine_race", 0, result, {});
  const nlohmann::json& kinds = run["latency_by_kind_ns"];
  ASSERT_EQ(kinds.size(), 2u);
  const auto expect_near = [](const nlohmann::json& value, double expected) {
    EXPECT_NEAR(value.get<double>(), expected, expected / 32);
  };
  EXPECT_EQ(kinds["write"]["count"], 100);
  EXPECT_EQ(kinds["write"]["max"], 100000);
  expect_near(kinds["write"]["min"], 1000);
  expect_near(kinds["write"]["p75"], 75000);
  expect_near(kinds["write"]["p95"], 95000);
  EXPECT_EQ(kinds["scan"]["mean"], 50500000.0);
  expect_near(kinds["scan"]["p95"], 95000000);
  // Together they are what was there before.
  EXPECT_EQ(run["latency_ns"]["count"], 200);
  expect_near(run["latency_ns"]["p50"], 100000);
  EXPECT_FALSE(RunJson("engine_race", 0, BenchResult(), {}).contains("latency_by_kind_ns"));
}

TEST(RunJsonTest, SaysHowManyKeysWereFound) {
  BenchResult result = SomeResult();
  result.lookup_count = 1000;
  const nlohmann::json run = RunJson("engine_race", 0, result, {});
  EXPECT_EQ(run["lookup_count"], 1000);
  EXPECT_EQ(run["found_count"], 0);
}

TEST(CostMeterTest, CountsADeviceWhoseNameLiesInMemory) {
  const test::TempDir temp{test::FastParent()};
  if (!FileSystemName(temp.path()).starts_with("tmpfs")) GTEST_SKIP() << "no tmpfs here";
  EXPECT_FALSE(CostMeter({temp.path()}).Stop(0).device);
  const std::string device = temp.Join("device");
  const std::string error = test::MakeDeviceNode(device);
  if (!error.empty()) GTEST_SKIP() << error;
  CostMeter meter({device});
  meter.Start();
  EXPECT_TRUE(meter.Stop(0).device);
}

TEST(RunJsonTest, WhatIsNotKnownIsNull) {
  const nlohmann::json run = RunJson("engine_race", 0, BenchResult(), {});
  for (const char* name : {"device_read_bytes", "device_written_bytes", "write_amplification",
                           "space_amplification", "lookup_count", "found_count"}) {
    EXPECT_TRUE(run.at(name).is_null()) << name;
  }
  EXPECT_FALSE(run.contains("latency_ns"));
}

TEST(SummaryJsonTest, HasTheMedianOfEachPhase) {
  nlohmann::json runs = nlohmann::json::array();
  const auto add = [&](const char* store, const char* phase, double rate, bool finished) {
    runs.push_back(
        {{"store", store}, {"phase", phase}, {"operations_per_s", rate}, {"finished", finished}});
  };
  add("a", "write", 3, true);
  add("b", "write", 10, true);
  add("a", "write", 1, true);
  add("a", "read", 5, true);
  add("a", "write", 8, false);
  const nlohmann::json summary = SummaryJson(runs);
  ASSERT_EQ(summary.size(), 3u);
  EXPECT_EQ(summary[0],
            nlohmann::json({{"store", "a"},
                            {"phase", "write"},
                            {"operations_per_s", {{"median", 3.0}, {"min", 1.0}, {"max", 8.0}}},
                            {"finished", false}}));
  EXPECT_EQ(summary[1]["store"], "b");
  EXPECT_EQ(summary[2]["phase"], "read");
  EXPECT_EQ(summary[2]["finished"], true);
}

TEST(RunsCsvTest, HasALineForEachRun) {
  const nlohmann::json runs = {RunJson("engine_race", 0, SomeResult(), {}),
                               RunJson("engine_race", 0, BenchResult(), {})};
  const std::string csv = RunsCsv(runs);
  std::vector<std::string> lines;
  for (size_t at = 0; at < csv.size();) {
    const size_t end = csv.find('\n', at);
    lines.push_back(csv.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 3u);
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_TRUE(lines[0].starts_with("store,phase,round,threads,operations,"));
  EXPECT_TRUE(
      lines[0].ends_with(",mean_ns,p50_ns,p90_ns,p99_ns,p999_ns,p9999_ns,max_ns,p75_ns,p95_ns"));
  EXPECT_TRUE(lines[1].starts_with("engine_race,fillrandom,0,2,1000,4104000,0.5,2000.0,true,"));
  EXPECT_EQ(commas(lines[0]), commas(lines[1]));
  EXPECT_EQ(commas(lines[0]), commas(lines[2]));
  EXPECT_TRUE(lines[2].ends_with(",,,,,,,")) << lines[2];
}

TEST(ReportFileTest, HasDbBenchsColumns) {
  const test::TempDir temp;
  const std::string path = temp.Join("report.csv");
  ReportFile file;
  ASSERT_TRUE(file.Open(path, 2));
  file.BeginRun();
  file.NoteSecond(1.001, 100);
  file.NoteSecond(2.002, 250);
  file.NoteSecond(3.001, 300);
  file.NoteSecond(4.002, 400);
  file.BeginRun();
  file.NoteSecond(1.001, 50);
  file.NoteSecond(2.001, 70);
  EXPECT_EQ(LoadText(path), "secs_elapsed,interval_qps\n2,250\n4,150\n6,70\n");
  EXPECT_FALSE(ReportFile().Open(temp.Join("missing/report.csv"), 1));
}

}  // namespace
}  // namespace engine_race::harness

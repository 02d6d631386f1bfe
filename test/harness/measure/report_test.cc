// The reports of the I/O experiments: names, units, and rows without figures.
#include "harness/measure/report.h"

#include <gtest/gtest.h>

namespace engine_race::harness {
namespace {

TimedPoint SomePoint() {
  TimedPoint point;
  point.seconds = 2;
  point.cpu_seconds = 0.5;
  point.request_count = 1000;
  point.byte_count = 4096000;
  for (uint64_t i = 1; i <= 1000; ++i) point.latency.Add(i);
  return point;
}

TEST(IoReportTest, APointGivesRateBandwidthCpuAndLatency) {
  ResultRow row = {{"in_flight", 8}};
  AddPoint(SomePoint(), &row);
  EXPECT_DOUBLE_EQ(row["requests_per_second"], 500);
  EXPECT_DOUBLE_EQ(row["mb_per_second"], 2.048);
  EXPECT_DOUBLE_EQ(row["cpu_ns_per_request"], 500000);
  EXPECT_DOUBLE_EQ(row["mean_ns"], 500.5);
  EXPECT_NEAR(row["p50_ns"].get<double>(), 500, 8);
  EXPECT_NEAR(row["p99_ns"].get<double>(), 990, 16);
  EXPECT_NEAR(row["p999_ns"].get<double>(), 999, 16);
  EXPECT_FALSE(row.contains("write_mean_ns"));
  EXPECT_EQ(row.begin().key(), "in_flight");
}

TEST(IoReportTest, RequestsWithoutLatencyHaveNone) {
  TimedPoint point = SomePoint();
  point.latency = LatencyHistogram();
  ResultRow row;
  AddPoint(point, &row);
  EXPECT_FALSE(row.contains("mean_ns"));
}

TEST(IoReportTest, NothingMeasuredIsZeroNotANumberThatJsonLacks) {
  ResultRow row;
  AddPoint(TimedPoint(), &row);
  EXPECT_EQ(row["requests_per_second"], 0);
  EXPECT_EQ(row["mb_per_second"], 0);
  EXPECT_EQ(row["cpu_ns_per_request"], 0);
}

TEST(IoReportTest, WhatCannotBeHadIsNoFailure) {
  Experiment experiment;
  ResultRow missing = {{"backend", "io_uring"}};
  AddOutcome(Status::NotSupported("io_uring_setup: EPERM"), TimedPoint(), &missing);
  EXPECT_EQ(missing["unavailable"], "io_uring_setup: EPERM");
  experiment.rows.push_back(missing);
  EXPECT_EQ(ErrorCount(experiment), 0u);
  ResultRow failed = {{"backend", "libaio"}};
  AddOutcome(Status::IOError("read: EIO"), TimedPoint(), &failed);
  EXPECT_TRUE(failed.contains("error"));
  experiment.rows.push_back(failed);
  EXPECT_EQ(ErrorCount(experiment), 1u);
  const std::string text = ExperimentText(experiment);
  EXPECT_NE(text.find("not here: io_uring_setup: EPERM"), std::string::npos) << text;
  EXPECT_NE(text.find("FAILED: kIOError: read: EIO"), std::string::npos) << text;
}

TEST(IoReportTest, ATableHasEveryFigureInItsUnit) {
  Experiment experiment;
  experiment.number = 2;
  experiment.name = "page size";
  experiment.question = "Which?";
  experiment.unit = "a read";
  experiment.medium = "tmpfs";
  experiment.notes = {"through psync"};
  experiment.rows = {{{"page_bytes", 512}, {"requests_per_second", 1000.4}},
                     {{"page_bytes", 16384}, {"mean_ns", 1500.0}, {"requests_per_second", 7.0}},
                     {{"page_bytes", 16384}, {"switch_ns", 2.25}}};
  EXPECT_EQ(ExperimentText(experiment),
            "2. page size, tmpfs (a request: a read)\n"
            "   Which?\n"
            "   note: through psync\n"
            "page    switch    mean  req/s\n"
            "-----------------------------\n"
            "512 B        -       -   1000\n"
            "16 KiB       -  1.5 us      7\n"
            "16 KiB  2.2 ns       -      -\n"
            "\n");
}

TEST(IoReportTest, JsonSaysWhatWasAskedAndHowToDrawIt) {
  Experiment experiment;
  experiment.number = 3;
  experiment.name = "requests in flight";
  experiment.unit = "a read";
  experiment.medium = "disk";
  experiment.plot.x = "in_flight";
  experiment.rows = {{{"in_flight", 1}}};
  const nlohmann::json json = experiment;
  for (const char* key :
       {"number", "name", "question", "unit", "medium", "notes", "plot", "rows"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["plot"]["x"], "in_flight");
  EXPECT_EQ(json["rows"][0]["in_flight"], 1);
}

TEST(IoReportTest, BytesTakeTheirUnit) {
  EXPECT_EQ(ByteText(0), "0 B");
  EXPECT_EQ(ByteText(512), "512 B");
  EXPECT_EQ(ByteText(64 << 10), "64 KiB");
  EXPECT_EQ(ByteText(1536), "1.5 KiB");
  EXPECT_EQ(ByteText(8 << 20), "8 MiB");
  EXPECT_EQ(ByteText(uint64_t{3} << 30), "3 GiB");
}

}  // namespace
}  // namespace engine_race::harness

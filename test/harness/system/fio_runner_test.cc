#include "harness/system/fio_runner.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "harness/system/child_process.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::harness {
namespace {

const FioJob kReads = {"reads", {}, false};

// Two jobs of one second each, half a second of CPU time together, 100000 reads.
constexpr char kReport[] = R"(fio: this is a warning
{"jobs": [{"error": 0, "usr_cpu": 5.0, "sys_cpu": 20.0, "job_runtime": 2000,
  "read": {"io_bytes": 409600000, "runtime": 1000, "total_ios": 100000},
  "write": {"io_bytes": 0, "runtime": 0, "total_ios": 0}}]})";

TEST(FioRunnerTest, CpuTimeOfAnOperationIsThatOfAllJobs) {
  const FioResult result = FioRunner::ReadReport(kReads, kReport, 0);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_DOUBLE_EQ(result.cpu_ns_per_op, 5000);
  EXPECT_DOUBLE_EQ(result.ops_per_second, 100000);
  EXPECT_DOUBLE_EQ(result.bytes_per_second, 409600000);
}

TEST(FioRunnerTest, OfAMixReadsAndWritesCount) {
  std::string report = kReport;
  const std::string none = R"("io_bytes": 0, "runtime": 0, "total_ios": 0)";
  report.replace(report.find(none), none.size(),
                 R"("io_bytes": 800000000, "runtime": 2000, "total_ios": 50000)");
  const FioResult result = FioRunner::ReadReport({"mix", {}, false, true}, report, 0);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_DOUBLE_EQ(result.ops_per_second, 75000);
  EXPECT_DOUBLE_EQ(result.bytes_per_second, 604800000);
  EXPECT_EQ(FioRunner::ReadReport({"writes", {}, true}, report, 0).bytes, 800000000u);
}

TEST(FioRunnerTest, BlocksHaveTheMeanThatIsAskedFor) {
  EXPECT_EQ(FioRunner::BlocksOfMean(4096), "4096/100");
  EXPECT_EQ(FioRunner::BlocksOfMean(5120), "8192/25:4096/75");
  EXPECT_EQ(FioRunner::BlocksOfMean(6144), "8192/50:4096/50");
  EXPECT_EQ(FioRunner::BlocksOfMean(128 * 1024), "131072/100");
  EXPECT_EQ(FioRunner::BlocksOfMean(0), "4096/100");
}

TEST(FioRunnerTest, AReportWithoutRunTimeHasNoCpuTime) {
  std::string report = kReport;
  report.replace(report.find("job_runtime"), 11, "elapsed_all");
  const FioResult result = FioRunner::ReadReport(kReads, report, 0);
  EXPECT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.cpu_ns_per_op, 0);
}

TEST(FioRunnerTest, ReportsOfFailuresAreNotOk) {
  EXPECT_FALSE(FioRunner::ReadReport(kReads, "no report", 1).ok);
  EXPECT_FALSE(FioRunner::ReadReport(kReads, kReport, 1).ok);
  EXPECT_FALSE(FioRunner::ReadReport({"writes", {}, true}, kReport, 0).ok);
  EXPECT_FALSE(FioRunner::ReadReport(kReads, R"({"jobs": [{"error": 5}]})", 0).ok);
  EXPECT_FALSE(FioRunner::ReadReport(kReads, R"({"jobs": [{"error": 0}]})", 0).ok);
}

// Without a PATH no fio can be started, and that would be another error.
TEST(FioRunnerTest, NoJobIsStartedAfterAnInterrupt) {
  const int code = test::InChild([] {
    CatchInterrupts();
    ::raise(SIGINT);
    FioRunner fio("/dev/null");
    ::setenv("PATH", "", 1);
    return fio.BestScan(1 << 20).error == "interrupted" ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace engine_race::harness

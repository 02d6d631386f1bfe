#include "harness/race/runner.h"

#include <gtest/gtest.h>

namespace engine_race::harness {
namespace {

TEST(RaceJsonTest, APhaseLearnsWhetherTheIndexIsWritten) {
  for (const bool writes_index : {false, true}) {
    RaceConfig config;
    config.dir = "/store";
    config.writes_index = writes_index;
    config.value_bytes = 100;
    config.reads_per_thread = 7;
    config.range_thread_count = 3;
    const auto order = OrderOf({Phase::kRange, config}).get<PhaseOrder>();
    EXPECT_EQ(order.phase, Phase::kRange);
    EXPECT_EQ(order.config.dir, "/store");
    EXPECT_EQ(order.config.writes_index, writes_index);
    EXPECT_EQ(order.config.value_bytes, 100u);
    EXPECT_EQ(order.config.reads_each(), 7u);
    EXPECT_EQ(order.config.range_thread_count, 3u);
  }
}

// A value below 4 KiB is compared with a block of fio's.
TEST(RaceJsonTest, AReadOfAnySizeIsARead) {
  for (const uint32_t value_bytes : {100u, 4096u, 16384u}) {
    PhaseReport report;
    report.phase = Phase::kRead;
    report.result.value_bytes = value_bytes;
    report.result.record_count = 300;
    report.result.seconds = 1;
    report.before.ok = report.after.ok = true;
    report.before.ops_per_second = 500;
    report.after.ops_per_second = 700;
    EXPECT_DOUBLE_EQ(report.FractionOf(report.result.BytesPerSecond()), 0.5) << value_bytes;
  }
}

}  // namespace
}  // namespace engine_race::harness

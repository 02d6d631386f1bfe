#include "harness/measure/table.h"

#include <gtest/gtest.h>

#include "harness/measure/progress.h"

namespace engine_race::harness {
namespace {

TEST(TableTest, LinesUpItsColumns) {
  Table table({"phase", "MB/s"});
  table.AddRow({"write", "1234.5"});
  table.AddRow({"range, pass 1", "9.0"});
  EXPECT_EQ(table.ToString(),
            "phase            MB/s\n"
            "---------------------\n"
            "write          1234.5\n"
            "range, pass 1     9.0\n");
}

TEST(TableTest, DurationsTakeTheirUnit) {
  EXPECT_EQ(Duration(812), "812 ns");
  EXPECT_EQ(Duration(12340), "12.3 us");
  EXPECT_EQ(Duration(4560000), "4.56 ms");
  EXPECT_EQ(Duration(1.2e9), "1.20 s");
}

TEST(ProgressTest, TellsShareRateAndTimeLeft) {
  EXPECT_EQ(ProgressText("read", 500000, 2000000, 4096, 10),
            "read     25%  204.8 MB/s  50.0k/s  30 s left");
  EXPECT_EQ(ProgressText("read", 2000000, 2000000, 4096, 10), "read    100%  819.2 MB/s  200.0k/s");
  EXPECT_EQ(ProgressText("read", 0, 100, 4096, 0), "read      0%  0.0 MB/s  0.0k/s");
  EXPECT_EQ(ProgressText("read", 500000, 2000000, 0, 10), "read     25%  50.0k/s  30 s left");
}

}  // namespace
}  // namespace engine_race::harness

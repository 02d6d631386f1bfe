#include "harness/measure/table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "harness/measure/progress.h"
#include "test/test_util.h"

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

// What is written where the user asked for it, and what a trial leaves alone.

namespace fs = std::filesystem;

TEST(ResultFileTest, ATrialLeavesNoFile) {
  const test::TempDir temp;
  EXPECT_TRUE(CanSave(""));
  EXPECT_TRUE(CanSave(temp.Join("made/figures.json")));
  EXPECT_TRUE(fs::is_empty(temp.Join("made")));
  EXPECT_FALSE(CanSave(temp.Join("made")));
  std::ofstream(temp.Join("file")) << "kept";
  EXPECT_FALSE(CanSave(temp.Join("file/figures.json")));
  EXPECT_TRUE(CanSave(temp.Join("file")));
  EXPECT_EQ(fs::file_size(temp.Join("file")), 4u);
}

TEST(ResultFileTest, ATrialLeavesASymlinkAlone) {
  const test::TempDir temp;
  fs::create_symlink(temp.Join("target"), temp.Join("link"));
  EXPECT_TRUE(CanSave(temp.Join("link")));
  EXPECT_TRUE(fs::is_symlink(temp.Join("link")));
  EXPECT_FALSE(fs::exists(temp.Join("target")));
  ASSERT_TRUE(SaveText("figures", temp.Join("link")));
  EXPECT_TRUE(CanSave(temp.Join("link")));
  EXPECT_EQ(fs::file_size(temp.Join("target")), 7u);
}

// A trial that opened the pipe would wait for its reader.
TEST(ResultFileTest, ATrialDoesNotOpenAPipe) {
  const test::TempDir temp;
  ASSERT_EQ(::mkfifo(temp.Join("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(CanSave(temp.Join("pipe")));
  EXPECT_TRUE(fs::is_fifo(temp.Join("pipe")));
}

}  // namespace
}  // namespace engine_race::harness

#include "harness/race/runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine_race/base/sys.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

void Touch(const std::string& path) { std::ofstream(path) << "x"; }

TEST(RaceDirTest, LeavesForeignFilesAlone) {
  const test::TempDir temp;
  Touch(temp.path() + "/thesis.txt");
  RaceDir dir;
  EXPECT_NE(dir.Prepare(temp.path()).message().find("thesis.txt"), std::string::npos);
  EXPECT_TRUE(fs::exists(temp.path() + "/thesis.txt"));
}

TEST(RaceDirTest, LeavesAStoreThatItDidNotMakeAlone) {
  const test::TempDir temp;
  Touch(temp.path() + "/manifest");
  RaceDir dir;
  EXPECT_FALSE(dir.Prepare(temp.path()).ok());
}

TEST(RaceDirTest, LeavesForeignFilesBesideItsStoreAlone) {
  const test::TempDir temp;
  {
    RaceDir dir;
    ASSERT_TRUE(dir.Prepare(temp.path()).ok());
    ASSERT_TRUE(dir.StartStore(RaceConfig()).ok());
  }
  Touch(temp.path() + "/thesis.txt");
  RaceDir dir;
  EXPECT_FALSE(dir.Prepare(temp.path()).ok());
}

TEST(RaceDirTest, ReplacesItsOwnStore) {
  const test::TempDir temp;
  RaceConfig config;
  config.keys = KeyShape::kZipfian;
  config.seed = 77;
  {
    RaceDir dir;
    ASSERT_TRUE(dir.Prepare(temp.path()).ok());
    EXPECT_FALSE(dir.ReadNote().has_value());
    ASSERT_TRUE(dir.StartStore(config).ok());
  }
  Touch(temp.path() + "/manifest");
  Touch(temp.path() + "/value_00");
  RaceDir dir;
  ASSERT_TRUE(dir.Prepare(temp.path()).ok());
  ASSERT_TRUE(dir.ReadNote().has_value());
  EXPECT_EQ(dir.ReadNote()->keys, KeyShape::kZipfian);
  EXPECT_EQ(dir.ReadNote()->seed, 77u);
  ASSERT_TRUE(dir.StartStore(config).ok());
  EXPECT_FALSE(fs::exists(temp.path() + "/manifest"));
  EXPECT_FALSE(fs::exists(temp.path() + "/value_00"));
}

TEST(RaceJsonTest, APhaseLearnsWhetherTheIndexIsWritten) {
  for (const bool writes_index : {false, true}) {
    RaceConfig config;
    config.dir = "/store";
    config.writes_index = writes_index;
    config.value_bytes = 100;
    config.reads_per_thread = 7;
    config.range_thread_count = 3;
    const auto read = nlohmann::json(config).get<RaceConfig>();
    EXPECT_EQ(read.dir, "/store");
    EXPECT_EQ(read.writes_index, writes_index);
    EXPECT_EQ(read.value_bytes, 100u);
    EXPECT_EQ(read.reads_each(), 7u);
    EXPECT_EQ(read.range_thread_count, 3u);
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

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    in = UniqueFd(ends[0]);
    out = UniqueFd(ends[1]);
  }
  UniqueFd in;
  UniqueFd out;
};

TEST(GateTest, WithoutOtherInstancesItIsOpen) { EXPECT_TRUE(PassGate({}, "start write")); }

TEST(GateTest, SaysItsLineAndTakesOneAnswer) {
  const Pipe said;
  const Pipe answers;
  ASSERT_EQ(::write(answers.out.get(), "go\ngo\n", 6), 6);
  const GateFds fds = {.in = answers.in.get(), .out = said.out.get()};
  EXPECT_TRUE(PassGate(fds, "start write"));
  EXPECT_TRUE(PassGate(fds, "done write 7"));
  char text[64] = {};
  EXPECT_EQ(::read(said.in.get(), text, sizeof(text)), 25);
  EXPECT_STREQ(text, "start write\ndone write 7\n");
}

TEST(GateTest, ALauncherThatHasGoneIsNoSignal) {
  const Pipe said;
  Pipe answers;
  answers.out.Reset();
  EXPECT_FALSE(PassGate({.in = answers.in.get(), .out = said.out.get()}, "start write"));
  Pipe unread;
  unread.in.Reset();
  EXPECT_FALSE(PassGate({.in = answers.in.get(), .out = unread.out.get()}, "start write"));
}

}  // namespace
}  // namespace engine_race::harness

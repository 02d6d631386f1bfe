#include "harness/race/runner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

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

}  // namespace
}  // namespace engine_race::harness

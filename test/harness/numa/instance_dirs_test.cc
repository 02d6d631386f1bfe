#include "harness/numa/instance_process.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

TEST(InstanceDirsTest, OnlyOneLauncherHoldsADirectory) {
  const test::TempDir temp;
  const std::string dir = temp.Join("a");
  {
    InstanceDirs first;
    ASSERT_TRUE(first.Take(dir).ok());
    EXPECT_TRUE(fs::is_directory(dir));
    InstanceDirs second;
    const Status refused = second.Take(dir);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find(dir + " is in use"), std::string::npos) << refused.message();
    EXPECT_TRUE(second.Take(temp.Join("b")).ok());
  }
  InstanceDirs third;
  EXPECT_TRUE(third.Take(dir).ok());
}

TEST(InstanceDirsTest, LeavesNoEmptyDirectoryThatItMade) {
  const test::TempDir temp;
  fs::create_directory(temp.Join("before"));
  {
    InstanceDirs dirs;
    ASSERT_TRUE(dirs.Take(temp.Join("new/deep")).ok());
    ASSERT_TRUE(dirs.Take(temp.Join("before")).ok());
    ASSERT_TRUE(dirs.Take(temp.Join("full")).ok());
    std::ofstream(temp.Join("full/store")) << "x";
  }
  EXPECT_FALSE(fs::exists(temp.Join("new")));
  EXPECT_TRUE(fs::exists(temp.Join("before")));
  EXPECT_TRUE(fs::exists(temp.Join("full/store")));
}

TEST(InstanceDirsTest, NamesWhatCannotBeMade) {
  const test::TempDir temp;
  std::ofstream(temp.Join("file")) << "x";
  InstanceDirs dirs;
  const Status refused = dirs.Take(temp.Join("file/a"));
  EXPECT_NE(refused.message().find("file/a"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace engine_race::harness

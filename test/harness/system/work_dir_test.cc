#include "harness/system/work_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/system/disk.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

class WorkDirTest : public ::testing::Test {
 protected:
  void Touch(const std::string& name) { std::ofstream(temp_.Join(name)) << "x"; }

  test::TempDir temp_;
};

TEST_F(WorkDirTest, MakesAMissingDirectoryAndLeavesIt) {
  {
    WorkDir dir;
    ASSERT_TRUE(dir.Prepare(temp_.Join("new")).ok());
    EXPECT_EQ(dir.path(), temp_.Join("new"));
  }
  EXPECT_TRUE(fs::is_directory(temp_.Join("new")));
}

TEST_F(WorkDirTest, RemovesADirectoryThatItMadeUp) {
  const fs::path before = fs::current_path();
  fs::current_path(temp_.path());
  {
    WorkDir dir;
    ASSERT_TRUE(dir.Prepare("").ok());
    EXPECT_TRUE(fs::is_directory(dir.path()));
    EXPECT_FALSE(fs::is_empty(temp_.path()));
  }
  EXPECT_TRUE(fs::is_empty(temp_.path()));
  fs::current_path(before);
}

TEST_F(WorkDirTest, RefusesFilesThatTheCallerDoesNotKnow) {
  Touch("known");
  {
    WorkDir dir;
    EXPECT_NE(dir.Prepare(temp_.path()).message().find("known"), std::string::npos);
  }
  const auto is_known = [](const std::string& name) { return name == "known"; };
  {
    WorkDir dir;
    EXPECT_TRUE(dir.Prepare(temp_.path(), is_known).ok());
  }
  Touch("foreign");
  WorkDir dir;
  EXPECT_NE(dir.Prepare(temp_.path(), is_known).message().find("foreign"), std::string::npos);
  EXPECT_TRUE(fs::exists(temp_.Join("foreign")));
}

TEST_F(WorkDirTest, AnEmptyFileSystemIsEmpty) {
  fs::create_directory(temp_.Join("lost+found"));
  WorkDir dir;
  EXPECT_TRUE(dir.Prepare(temp_.path()).ok());
}

// A disk in a file, mounted through a loop device.

using test::FastParent;
using test::TempDir;

constexpr uint64_t kBytes = uint64_t{320} << 20;

TEST(LoopDiskTest, ItsFilesGoWithIt) {
  if (!LoopDisk::WhyNoXfs().empty()) GTEST_SKIP() << LoopDisk::WhyNoXfs();
  const TempDir dir(FastParent());
  std::string file;
  {
    LoopDisk disk;
    const Status mounted = disk.Mount(kMakeXfs, dir.path(), kBytes);
    if (!mounted.ok()) GTEST_SKIP() << mounted.ToString();
    EXPECT_TRUE(FileSystemName(disk.path()).starts_with("xfs on ")) << disk.path();
    file = disk.path() + "/file";
    std::ofstream(file) << "text";
    EXPECT_TRUE(std::filesystem::exists(file));
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(LoopDiskTest, WithoutItsDirectoryThereIsNone) {
  const TempDir dir(FastParent());
  LoopDisk disk;
  EXPECT_FALSE(disk.Mount(kMakeXfs, dir.Join("missing"), kBytes).ok());
  EXPECT_TRUE(disk.path().empty());
}

}  // namespace
}  // namespace engine_race::harness

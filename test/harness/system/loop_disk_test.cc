// A disk in a file, mounted through a loop device.
#include "harness/system/loop_disk.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/system/disk.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

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

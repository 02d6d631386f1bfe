// A disk of XFS in a file.
#include "harness/system/xfs_disk.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/system/disk.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::FastParent;
using test::TempDir;

TEST(XfsDiskTest, ItsFilesGoWithIt) {
  if (!XfsDisk::WhyNot().empty()) GTEST_SKIP() << XfsDisk::WhyNot();
  const TempDir dir(FastParent());
  std::string file;
  {
    XfsDisk disk;
    const Status mounted = disk.Mount(dir.path(), 1);
    if (!mounted.ok()) GTEST_SKIP() << mounted.ToString();
    EXPECT_TRUE(FileSystemName(disk.path()).starts_with("xfs on ")) << disk.path();
    file = disk.path() + "/file";
    std::ofstream(file) << "text";
    EXPECT_TRUE(std::filesystem::exists(file));
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(XfsDiskTest, WithoutItsDirectoryThereIsNone) {
  const TempDir dir(FastParent());
  XfsDisk disk;
  EXPECT_FALSE(disk.Mount(dir.Join("missing"), 1).ok());
  EXPECT_TRUE(disk.path().empty());
}

}  // namespace
}  // namespace engine_race::harness

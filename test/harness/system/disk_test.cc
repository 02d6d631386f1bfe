// File systems, the page cache, counts of the device, working directories and disks in files.
#include "harness/system/disk.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

TEST(NearestDirTest, IsTheDirectoryOrTheNearestAboveIt) {
  const test::TempDir temp;
  EXPECT_EQ(NearestDir(temp.path()), temp.path());
  EXPECT_EQ(NearestDir(temp.Join("one/two/three")), temp.path());
  EXPECT_EQ(NearestDir("/no such directory/inside"), "/");
}

TEST(NearestDirTest, StartsFromTheWorkingDirectory) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(NearestDir(""), here);
  EXPECT_EQ(NearestDir("no such directory"), here);
}

TEST(WhyNoRoomTest, AFileSystemMustHoldAllNeedsTogether) {
  const test::TempDir dir;
  constexpr uint64_t kMuch = uint64_t{1} << 60;
  EXPECT_EQ(WhyNoRoom({{dir.path(), 1}}), "");
  EXPECT_EQ(WhyNoRoom({{dir.path() + "/of/tomorrow", 1}}), "");
  EXPECT_NE(WhyNoRoom({{dir.path(), 1}, {dir.path() + "/of/tomorrow", kMuch}}), "");
  // Those of any need make room for all.
  EXPECT_EQ(WhyNoRoom({{dir.path(), kMuch}, {dir.path(), 1, kMuch}}), "");
  EXPECT_NE(WhyNoRoom({{dir.path(), kMuch}, {dir.path(), kMuch, kMuch}}), "");
  // Their sum would wrap.
  EXPECT_NE(WhyNoRoom({{dir.path(), ~uint64_t{0}}, {dir.path(), 2}}), "");
}

// Files in memory are never cold.

TEST(PageCacheTest, FilesInMemoryAreNotDropped) {
  const std::filesystem::path parent = "/dev/shm";
  if (!FileSystemName(parent.string()).starts_with("tmpfs")) GTEST_SKIP() << "no tmpfs";
  const test::TempDir dir(parent);
  std::ofstream(dir.Join("file")) << "some";
  EXPECT_EQ(DropPageCache(dir.path()), "not dropped: the files lie in memory");
}

// The kernel's counts of a device's bytes.

TEST(DeviceIoTest, ParsesABlockDevice) {
  const auto bytes = ParseBlockStat("  123  4  1000 50  77 8  2000 90 0 100 140 0 0 0 0 5 6\n");
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->read, 512000u);
  EXPECT_EQ(bytes->written, 1024000u);
  EXPECT_EQ(bytes->read_count, 123u);
  EXPECT_EQ(bytes->write_count, 77u);
  EXPECT_FALSE(ParseBlockStat("1 2 3").has_value());
  EXPECT_FALSE(ParseBlockStat("").has_value());
}

TEST(DeviceIoTest, ParsesAProcess) {
  const auto bytes = ParseProcessIo(
      "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\n"
      "cancelled_write_bytes: 9\n");
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->read, 4096u);
  EXPECT_EQ(bytes->written, 8192u);
  EXPECT_EQ(bytes->read_count, 3u);
  EXPECT_EQ(bytes->write_count, 4u);
  EXPECT_FALSE(ParseProcessIo("rchar: 1\nread_bytes: 5\n").has_value());
}

TEST(DeviceIoTest, ADifferenceIsThatOfEachCount) {
  const DeviceBytes grown = DeviceBytes{9, 8, 7, 6} - DeviceBytes{1, 2, 3, 4};
  EXPECT_EQ(grown.read, 8u);
  EXPECT_EQ(grown.written, 6u);
  EXPECT_EQ(grown.read_count, 4u);
  EXPECT_EQ(grown.write_count, 2u);
}

TEST(DeviceIoTest, FindsTheDeviceOrTheProcess) {
  const test::TempDir temp;
  const DeviceIo io(temp.Join("."));
  EXPECT_EQ(io.device().empty(), io.source() == "/proc/self/io");
  EXPECT_EQ(DeviceIo("/proc").source(), "/proc/self/io");
  EXPECT_EQ(DeviceIo(temp.Join("missing")).source(), "/proc/self/io");
}

TEST(DiskTest, CountsAllocatedBytes) {
  const test::TempDir temp;
  EXPECT_EQ(AllocatedBytes(temp.Join("missing")), 0u);
  std::filesystem::create_directory(temp.Join("below"));
  const std::string path = temp.Join("below/file");
  const std::string text(100000, 'x');
  FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fwrite(text.data(), 1, text.size(), file);
  ASSERT_EQ(fsync(fileno(file)), 0);
  std::fclose(file);
  // The hole takes no space.
  std::filesystem::resize_file(path, uint64_t{1} << 30);
  EXPECT_GE(AllocatedBytes(temp.Join(".")), text.size());
  EXPECT_LT(AllocatedBytes(temp.Join(".")), uint64_t{1} << 24);
}

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

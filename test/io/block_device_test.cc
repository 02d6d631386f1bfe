#include "engine_race/io/block_device.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine_race/base/memory.h"
#include "test/loop_device.h"

namespace engine_race::io {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class BlockDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!loop_.valid()) GTEST_SKIP() << "no loop devices here: " << loop_.why();
  }

  bool HoldsSomething() {
    BlockDevice device;
    Status status = BlockDevice::Open(loop_.path(), /*read_only=*/false, &device);
    EXPECT_TRUE(status.ok()) << status.ToString();
    bool holds = false;
    status = device.HoldsSomething(&holds);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return holds;
  }

  test::LoopDevice loop_{8 * kMiB + 512};
};

TEST_F(BlockDeviceTest, SaysHowLargeItIs) {
  BlockDevice device;
  const Status status = BlockDevice::Open(loop_.path(), /*read_only=*/false, &device);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(device.size_bytes, 8 * kMiB + 512);
  EXPECT_EQ(device.sector_bytes, 512u);
  EXPECT_TRUE(device.file.direct());
}

TEST_F(BlockDeviceTest, WritesAndReads) {
  BlockDevice device;
  ASSERT_TRUE(BlockDevice::Open(loop_.path(), /*read_only=*/false, &device).ok());
  Region out;
  Region in;
  ASSERT_TRUE(Region::Allocate(kIoAlignment, false, &out).ok());
  ASSERT_TRUE(Region::Allocate(kIoAlignment, false, &in).ok());
  std::fill_n(out.data(), out.size(), 'x');
  ASSERT_TRUE(device.file.Write(out.data(), out.size(), kMiB).ok());
  ASSERT_TRUE(device.file.DataSync().ok());
  ASSERT_TRUE(device.file.Read(in.data(), in.size(), kMiB).ok());
  EXPECT_EQ(std::string(in.data(), in.size()), std::string(out.data(), out.size()));
  // The place of a hole reads as zeros again.
  bool supported = false;
  ASSERT_TRUE(device.file.Punch(kMiB, kMiB + kIoAlignment, &supported).ok());
  ASSERT_TRUE(supported);
  ASSERT_TRUE(device.file.Read(in.data(), in.size(), kMiB).ok());
  EXPECT_EQ(std::string(in.data(), in.size()), std::string(in.size(), '\0'));
}

TEST_F(BlockDeviceTest, OneMayWriteOrSeveralMayRead) {
  BlockDevice first;
  ASSERT_TRUE(BlockDevice::Open(loop_.path(), /*read_only=*/false, &first).ok());
  BlockDevice second;
  const Status status = BlockDevice::Open(loop_.path(), /*read_only=*/false, &second);
  EXPECT_EQ(status.code(), Code::kIOError);
  EXPECT_NE(status.message().find("mounted or in use"), std::string::npos) << status.ToString();
  bool in_use = false;
  EXPECT_EQ(BlockDevice::Open(loop_.path(), /*read_only=*/true, &second, &in_use).code(),
            Code::kIOError);
  EXPECT_TRUE(in_use);
  first = BlockDevice();
  EXPECT_TRUE(BlockDevice::Open(loop_.path(), /*read_only=*/true, &first).ok());
  EXPECT_TRUE(BlockDevice::Open(loop_.path(), /*read_only=*/true, &second).ok());
  BlockDevice third;
  EXPECT_EQ(BlockDevice::Open(loop_.path(), /*read_only=*/false, &third).code(), Code::kIOError);
  first = BlockDevice();
  second = BlockDevice();
  EXPECT_TRUE(BlockDevice::Open(loop_.path(), /*read_only=*/false, &third).ok());
}

TEST_F(BlockDeviceTest, AMountedDeviceIsRefused) {
  const std::string mkfs = "mkfs.ext4 -q -F " + loop_.path() + " > /dev/null 2>&1";
  const std::string with_path = "PATH=$PATH:/usr/sbin:/sbin " + mkfs;
  if (std::system(with_path.c_str()) != 0) GTEST_SKIP() << "no mkfs.ext4 here";
  const test::TempDir mount_point;
  if (::mount(loop_.path().c_str(), mount_point.path().c_str(), "ext4", 0, nullptr) != 0) {
    GTEST_SKIP() << "nothing may be mounted here: " << std::strerror(errno);
  }
  BlockDevice device;
  const Status status = BlockDevice::Open(loop_.path(), /*read_only=*/false, &device);
  ::umount2(mount_point.path().c_str(), MNT_DETACH);
  EXPECT_EQ(status.code(), Code::kIOError);
  EXPECT_NE(status.message().find("mounted or in use"), std::string::npos) << status.ToString();
}

TEST_F(BlockDeviceTest, AFileSystemHoldsSomething) {
  const std::string mkfs =
      "PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F " + loop_.path() + " > /dev/null 2>&1";
  if (std::system(mkfs.c_str()) != 0) GTEST_SKIP() << "no mkfs.ext4 here";
  EXPECT_TRUE(HoldsSomething());
}

TEST_F(BlockDeviceTest, ZerosHoldNothing) {
  EXPECT_FALSE(HoldsSomething());
  // In the middle there is no signature.
  ASSERT_TRUE(loop_.Write(4 * kMiB, "leftover"));
  EXPECT_FALSE(HoldsSomething());
}

TEST_F(BlockDeviceTest, EveryByteAtTheEndsCounts) {
  const uint64_t end = 8 * kMiB + 512;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{510}, kMiB - 1, end - kMiB, end - 1}) {
    ASSERT_TRUE(loop_.Write(offset, "\x01"));
    EXPECT_TRUE(HoldsSomething()) << "at " << offset;
    ASSERT_TRUE(loop_.Write(offset, std::string(1, '\0')));
  }
  EXPECT_FALSE(HoldsSomething());
}

TEST(BlockDevicePathTest, FilesAndDirectoriesAreNoDevices) {
  const test::TempDir dir;
  bool is_device = true;
  ASSERT_TRUE(BlockDevice::Is(dir.path(), &is_device).ok());
  EXPECT_FALSE(is_device);
  ASSERT_TRUE(BlockDevice::Is(dir.Join("nothing"), &is_device).ok());
  EXPECT_FALSE(is_device);
  BlockDevice device;
  EXPECT_EQ(BlockDevice::Open(dir.path(), false, &device).code(), Code::kInvalidArgument);
  EXPECT_EQ(BlockDevice::Open("/dev/null", false, &device).code(), Code::kInvalidArgument);
}

TEST(BlockDeviceSizeTest, ADeviceSmallerThanAMiBIsLookedAtWhole) {
  const test::LoopDevice loop(64 * 1024);
  if (!loop.valid()) GTEST_SKIP() << "no loop devices here: " << loop.why();
  BlockDevice device;
  ASSERT_TRUE(BlockDevice::Open(loop.path(), /*read_only=*/false, &device).ok());
  bool holds = true;
  ASSERT_TRUE(device.HoldsSomething(&holds).ok());
  EXPECT_FALSE(holds);
  ASSERT_TRUE(loop.Write(40'000, "x"));
  ASSERT_TRUE(device.HoldsSomething(&holds).ok());
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace engine_race::io

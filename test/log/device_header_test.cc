// The header of a device, over a file.
#include "engine_race/log/device_header.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine_race/log/geometry.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

uint64_t SegmentBytes(uint32_t value_bytes) {
  return GeometryFrom(SizedLogOptions(value_bytes)).segment_value_bytes();
}

TEST(DeviceHeaderTest, ADeviceHasAsManySegmentsAsFit) {
  uint32_t count = 0;
  for (const uint32_t value_bytes : kValueSizes) {
    const uint64_t bytes = SegmentBytes(value_bytes);
    EXPECT_EQ(PlanSegments((1 << 20) + bytes - 1, bytes, &count).code(), Code::kInvalidArgument);
    ASSERT_TRUE(PlanSegments((1 << 20) + 7 * bytes + bytes / 2, bytes, &count).ok());
    EXPECT_EQ(count, 7u) << value_bytes;
  }
}

TEST(DeviceHeaderTest, SegmentsOfAnotherSizeAreRefused) {
  const TempDir dir;
  const std::string path = dir.Join("device");
  std::ofstream(path).close();
  constexpr uint64_t kBytes = 8 << 20;
  std::filesystem::resize_file(path, kBytes);
  io::BlockDevice device;
  ASSERT_TRUE(
      io::File::Open(AT_FDCWD, path, io::Access::kReadWrite, io::Caching::kDirect, &device.file)
          .ok());
  device.size_bytes = kBytes;
  format::DeviceHeader identity{};
  identity.store_id = 5;
  identity.path_count = 1;
  identity.segment_bytes = SegmentBytes(100);
  ASSERT_TRUE(PlanSegments(kBytes, identity.segment_bytes, &identity.segment_count).ok());
  ASSERT_TRUE(WriteDeviceHeader(device, identity).ok());
  uint32_t found = 0;
  ASSERT_TRUE(CheckDeviceHeader(device, identity, Code::kInvalidArgument, &found).ok());
  EXPECT_EQ(found, identity.segment_count);
  format::DeviceHeader other = identity;
  other.segment_bytes = SegmentBytes(512);
  EXPECT_EQ(CheckDeviceHeader(device, other, Code::kInvalidArgument, &found).code(),
            Code::kNotSupported);
  // Its last segment is not all there any more.
  device.size_bytes = (1 << 20) + identity.segment_count * identity.segment_bytes - 1;
  EXPECT_EQ(CheckDeviceHeader(device, identity, Code::kInvalidArgument, &found).code(),
            Code::kCorruption);
}

}  // namespace
}  // namespace engine_race::test

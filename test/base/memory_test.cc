#include "engine_race/base/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "engine_race/base/sys.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

TEST(RegionTest, AlignedZeroedAndMovable) {
  for (const bool huge_pages : {false, true}) {
    Region region;
    ASSERT_TRUE(Region::Allocate(5000, huge_pages, &region).ok());
    EXPECT_EQ(region.size(), 8192u);
    const size_t alignment = huge_pages ? size_t{2} << 20 : kIoAlignment;
    EXPECT_EQ(reinterpret_cast<size_t>(region.data()) % alignment, 0u);
    for (size_t i = 0; i < region.size(); ++i) ASSERT_EQ(region.data()[i], 0);
    std::memset(region.data(), 1, region.size());
    Region moved = std::move(region);
    EXPECT_EQ(region.data(), nullptr);  // NOLINT: what a moved-from region promises
    EXPECT_EQ(moved.data()[8191], 1);
  }
}

TEST(RegionTest, RefusedMemoryIsAStatus) {
  Region region;
  EXPECT_EQ(Region::Allocate(size_t{1} << 60, false, &region).code(), Code::kOutOfMemory);
  EXPECT_EQ(region.data(), nullptr);
}

TEST(SharedMappingTest, StoresReachTheFile) {
  test::TempDir dir;
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir.Join("f"), O_RDWR | O_CREAT, 0644, &fd).ok());
  ASSERT_TRUE(sys::Truncate(fd.get(), 4096).ok());
  {
    SharedMapping mapping;
    ASSERT_TRUE(SharedMapping::Map(fd.get(), 4096, &mapping).ok());
    mapping.data()[100] = 'x';
  }
  char c = 0;
  ASSERT_TRUE(sys::PreadFull(fd.get(), &c, 1, 100).ok());
  EXPECT_EQ(c, 'x');
}

}  // namespace
}  // namespace engine_race

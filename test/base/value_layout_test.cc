#include "engine_race/base/value_layout.h"

#include <gtest/gtest.h>

namespace engine_race {
namespace {

constexpr uint32_t kBlock = 4096;

TEST(ValueLayoutTest, TheDefaultIsABlockForEachValue) {
  const ValueLayout layout;
  EXPECT_EQ(layout.value_bytes(), 4096u);
  EXPECT_EQ(layout.slot_bytes(), 4096u);
  EXPECT_EQ(layout.read_bytes(), 4096u);
  EXPECT_TRUE(layout.is_aligned());
  EXPECT_EQ(layout.GroupRecords(128 * 1024, 256), 32u);
}

TEST(ValueLayoutTest, SizesThatPeopleUseAreNotPadded) {
  for (const uint32_t size : {8U, 100U, 128U, 512U, 1536U, 3072U, 6144U, 16384U, 65536U, 262144U}) {
    EXPECT_EQ(ValueLayout(size).slot_bytes(), size);
  }
}

TEST(ValueLayoutTest, EverySizeKeepsItsPromises) {
  for (uint32_t size = kMinValueBytes; size <= kMaxValueBytes; size += 1 + size / 97) {
    const ValueLayout layout(size);
    const uint32_t slot = layout.slot_bytes();
    ASSERT_EQ(layout.value_bytes(), size);
    ASSERT_GE(slot, size);
    ASSERT_LE(slot - size, size / 64) << size;
    ASSERT_EQ(slot % layout.unit_bytes(), 0u) << size;
    ASSERT_EQ(kBlock % layout.unit_bytes(), 0u) << size;
    ASSERT_EQ(layout.is_aligned(), slot % kBlock == 0) << size;
    // Where any slot of a segment may begin, its blocks fit a read.
    for (uint32_t i = 0; i < 64; ++i) {
      const Blocks blocks = BlocksAround(uint64_t{i} * slot, slot);
      ASSERT_LE(blocks.size_bytes, layout.read_bytes()) << size;
      ASSERT_EQ(blocks.offset + blocks.skip_bytes, uint64_t{i} * slot);
      ASSERT_EQ(blocks.offset % kBlock, 0u);
      ASSERT_EQ(blocks.size_bytes % kBlock, 0u);
    }
    for (const uint32_t wanted : {4096U, 128U * 1024, 1024U * 1024}) {
      const uint32_t count = layout.GroupRecords(wanted, 256);
      ASSERT_TRUE(count >= 1 && count <= 256 && (count & (count - 1)) == 0) << size;
      ASSERT_TRUE(count == 256 || uint64_t{count} * slot >= wanted) << size;
      ASSERT_TRUE(count == 256 || uint64_t{count} * slot % kBlock == 0) << size;
      // No group takes gigabytes, however odd the size.
      ASSERT_LE(uint64_t{count} * slot, std::max<uint64_t>(2 * wanted, 2 * 1024 * 1024)) << size;
    }
  }
}

TEST(ValueLayoutTest, BlocksAroundAPart) {
  EXPECT_EQ(BlocksAround(0, 4096).size_bytes, 4096u);
  EXPECT_EQ(BlocksAround(1536, 1536).size_bytes, 4096u);
  const Blocks two = BlocksAround(3072, 1536);
  EXPECT_EQ(two.offset, 0u);
  EXPECT_EQ(two.size_bytes, 8192u);
  EXPECT_EQ(two.skip_bytes, 3072u);
}

}  // namespace
}  // namespace engine_race

#include "engine_race/scan/buffer_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace engine_race {
namespace {

constexpr uint32_t kSomeSizes[] = {8,    9,    100,  512,    1000,   1536,    2048,     3000,
                                   4096, 4097, 5000, 16'384, 65'000, 140'000, 1'048'576};

TEST(BufferLayoutTest, ValuesOf4KiBTakeAPositionEach) {
  const BufferLayout layout;
  EXPECT_EQ(layout.slot_positions(), 1u);
  EXPECT_EQ(layout.read_positions(), 1u);
  EXPECT_EQ(layout.block_positions(), 1u);
  EXPECT_EQ(layout.buffer_bytes(), 256u * 1024);
  EXPECT_EQ(layout.buffer_positions(), 64u);
  EXPECT_EQ(layout.window_records(), 64u);
  EXPECT_EQ(layout.walk_records(), 1024u);
  EXPECT_EQ(layout.walk_positions(), 1024u);
  EXPECT_EQ(layout.EndOfReads(70, 100), 170u);
}

TEST(BufferLayoutTest, BuffersAreWholeBlocksAndHoldAValue) {
  for (const uint32_t size : kSomeSizes) {
    SCOPED_TRACE(size);
    const BufferLayout layout{ValueLayout(size)};
    EXPECT_EQ(layout.buffer_bytes() % kIoAlignment, 0u);
    EXPECT_GE(layout.buffer_bytes(), layout.read_bytes());
    // Little is left over.
    EXPECT_GT(layout.buffer_bytes() + layout.read_bytes(), 256u * 1024);
    EXPECT_GE(layout.SureRecords(layout.buffer_positions()), 1u);
    EXPECT_GE(layout.MostRecords(layout.buffer_positions()),
              layout.SureRecords(layout.buffer_positions()));
    EXPECT_GE(layout.SureRecords(layout.walk_positions()), 4u);
    EXPECT_LE(layout.window_records(), 64u);
    EXPECT_LE(uint64_t{layout.window_records()} * layout.slot_bytes(), layout.buffer_bytes());
  }
}

// Wherever slots begin, the blocks of one alone are no more than read_positions() says.
TEST(BufferLayoutTest, NoSlotTakesMoreThanAReadOfItsOwn) {
  for (const uint32_t size : kSomeSizes) {
    SCOPED_TRACE(size);
    const BufferLayout layout{ValueLayout(size)};
    uint64_t most_bytes = 0;
    for (uint64_t slot = 0; slot < 5 * format::kMaxRowRecords; ++slot) {
      const Blocks blocks = layout.BlocksOf(slot);
      most_bytes = std::max(most_bytes, blocks.size_bytes);
      EXPECT_EQ(blocks.skip_bytes % layout.position_bytes(), 0u);
    }
    EXPECT_LE(most_bytes, layout.read_bytes());
    // The values of a segment may fit into a block.
    if (format::kMaxRowRecords * size > kIoAlignment) {
      EXPECT_EQ(most_bytes, layout.read_bytes());
    }
    EXPECT_EQ(layout.SlotOffset(format::kMaxRowRecords) % kIoAlignment, 0u);
  }
}

TEST(BufferLayoutTest, PositionsLieInTheirBuffers) {
  const BufferLayout layout{ValueLayout(140'000)};
  const std::vector<uint32_t> buffers = {5, 2};
  const uint32_t in_buffer = layout.buffer_positions();
  EXPECT_EQ(layout.OffsetOf(layout.PositionIn(buffers, 1)),
            5 * uint64_t{layout.buffer_bytes()} + layout.position_bytes());
  EXPECT_EQ(layout.OffsetOf(layout.PositionIn(buffers, in_buffer)),
            2 * uint64_t{layout.buffer_bytes()});
  EXPECT_EQ(layout.BuffersFor(in_buffer), 1u);
  EXPECT_EQ(layout.BuffersFor(in_buffer + 1), 2u);
}

// Buffers of a power of two positions, and others, up to the last position that a plan may have.
TEST(BufferLayoutTest, EachPositionLiesInItsBuffer) {
  for (const uint32_t value_bytes : kSomeSizes) {
    const BufferLayout layout{ValueLayout(value_bytes)};
    const uint32_t in_buffer = layout.buffer_positions();
    const uint32_t buffer_count = (1U << 30) / in_buffer;
    std::vector<uint32_t> buffers(buffer_count);
    for (uint32_t i = 0; i < buffer_count; ++i) buffers[i] = buffer_count - 1 - i;
    for (uint32_t i = 0; i < buffer_count; i += std::max(buffer_count / 1000, 1U)) {
      const uint32_t begin = buffers[i] * in_buffer;
      EXPECT_EQ(layout.PositionIn(buffers, i * in_buffer), begin) << value_bytes;
      EXPECT_EQ(layout.PositionIn(buffers, (i + 1) * in_buffer - 1), begin + in_buffer - 1);
    }
  }
}

// A read that does not fit into the rest of a buffer begins in the next one.
TEST(BufferLayoutTest, ReadsEndNoLaterThanEachInItsOwnBlocks) {
  const BufferLayout layout{ValueLayout(100)};
  const uint32_t read = layout.read_positions();
  const uint32_t buffer = layout.buffer_positions();
  EXPECT_EQ(layout.EndOfReads(0, 3), 3 * read);
  EXPECT_EQ(layout.EndOfReads(1, 1), layout.block_positions() + read);
  EXPECT_EQ(layout.EndOfReads(buffer - 1, 1), buffer + read);
  EXPECT_EQ(layout.EndOfReads(buffer - read, 2), buffer + read);
}

}  // namespace
}  // namespace engine_race

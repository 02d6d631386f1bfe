#include "engine_race/index/part_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace engine_race {
namespace {

struct Filled {
  MemoryBlock block;
  size_t size;
  char byte;
};

bool Intact(const Filled& filled) {
  for (size_t i = 0; i < filled.size; ++i) {
    if (filled.block.data()[i] != filled.byte) return false;
  }
  return true;
}

TEST(PartMemoryTest, BlocksDoNotOverlapAndSurviveTheirNeighbours) {
  std::mt19937_64 random(1);
  std::vector<Filled> blocks;
  {
    SlabAllocator slabs(1 << 20);
    for (int i = 0; i < 400; ++i) {
      Filled filled{{}, 1 + random() % (random() % 4 == 0 ? 300000 : 3000), static_cast<char>(i)};
      ASSERT_TRUE(slabs.Allocate(filled.size, &filled.block).ok());
      ASSERT_EQ(reinterpret_cast<uintptr_t>(filled.block.data()) % 64, 0U);
      ASSERT_GE(filled.block.footprint_bytes(), filled.size);
      ASSERT_LE(filled.block.footprint_bytes(), filled.size + 4096);
      std::memset(filled.block.data(), filled.byte, filled.size);
      blocks.push_back(std::move(filled));
      // Some go while others stay, in the same slab.
      if (random() % 3 == 0) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        ASSERT_TRUE(Intact(blocks.back()));
        blocks.pop_back();
      }
    }
  }
  // The allocator is gone; the slices are not.
  for (const Filled& filled : blocks) ASSERT_TRUE(Intact(filled));
}

TEST(PartMemoryTest, LargerThanASlabGetsItsOwn) {
  SlabAllocator slabs(64 << 10);
  MemoryBlock block;
  ASSERT_TRUE(slabs.Allocate(1 << 20, &block).ok());
  std::memset(block.data(), 1, 1 << 20);
}

TEST(PartMemoryTest, RefusedMemoryIsAStatus) {
  MemoryBlock block;
  EXPECT_EQ(MemoryBlock::Allocate(size_t{1} << 60, &block).code(), Code::kOutOfMemory);
  EXPECT_EQ(block.data(), nullptr);
}

TEST(PartMemoryTest, MovedBlockIsFreedOnce) {
  for (const size_t size : {size_t{100}, size_t{1} << 20}) {
    MemoryBlock a;
    ASSERT_TRUE(MemoryBlock::Allocate(size, &a).ok());
    char* const data = a.data();
    MemoryBlock b(std::move(a));
    MemoryBlock c;
    c = std::move(b);
    EXPECT_EQ(c.data(), data);
    std::memset(c.data(), 1, size);
  }
}

}  // namespace
}  // namespace engine_race

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
  PartMemory memory;
  size_t size;
  char byte;
};

bool Intact(const Filled& filled) {
  for (size_t i = 0; i < filled.size; ++i) {
    if (filled.memory.data()[i] != filled.byte) return false;
  }
  return true;
}

TEST(PartMemoryTest, BlocksDoNotOverlapAndSurviveTheirNeighbours) {
  std::mt19937_64 random(1);
  std::vector<Filled> parts;
  {
    SlabAllocator slabs(1 << 20);
    for (int i = 0; i < 400; ++i) {
      Filled filled{{}, 1 + random() % (random() % 4 == 0 ? 300000 : 3000), static_cast<char>(i)};
      ASSERT_TRUE(slabs.Allocate(filled.size, &filled.memory).ok());
      ASSERT_EQ(reinterpret_cast<uintptr_t>(filled.memory.data()) % 64, 0U);
      ASSERT_GE(filled.memory.footprint_bytes(), filled.size);
      ASSERT_LE(filled.memory.footprint_bytes(), filled.size + 4096);
      std::memset(filled.memory.data(), filled.byte, filled.size);
      parts.push_back(std::move(filled));
      // Some go while others stay, in the same slab.
      if (random() % 3 == 0) {
        std::swap(parts[random() % parts.size()], parts.back());
        ASSERT_TRUE(Intact(parts.back()));
        parts.pop_back();
      }
    }
  }
  // The allocator is gone; the slices are not.
  for (const Filled& filled : parts) ASSERT_TRUE(Intact(filled));
}

TEST(PartMemoryTest, LargerThanASlabGetsItsOwn) {
  SlabAllocator slabs(64 << 10);
  PartMemory memory;
  ASSERT_TRUE(slabs.Allocate(1 << 20, &memory).ok());
  std::memset(memory.data(), 1, 1 << 20);
}

TEST(PartMemoryTest, RefusedMemoryIsAStatus) {
  PartMemory memory;
  EXPECT_EQ(PartMemory::Allocate(size_t{1} << 60, &memory).code(), Code::kOutOfMemory);
  EXPECT_EQ(memory.data(), nullptr);
}

TEST(PartMemoryTest, MovedBlockIsFreedOnce) {
  for (const size_t size : {size_t{100}, size_t{1} << 20}) {
    PartMemory a;
    ASSERT_TRUE(PartMemory::Allocate(size, &a).ok());
    char* const data = a.data();
    PartMemory b(std::move(a));
    PartMemory c;
    c = std::move(b);
    EXPECT_EQ(c.data(), data);
    std::memset(c.data(), 1, size);
  }
}

}  // namespace
}  // namespace engine_race

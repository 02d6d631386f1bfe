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
  PartSlice slice;
  size_t size;
  char byte;
};

bool Intact(const Filled& filled) {
  for (size_t i = 0; i < filled.size; ++i) {
    if (filled.slice.data()[i] != filled.byte) return false;
  }
  return true;
}

TEST(PartMemoryTest, SlicesDoNotOverlapAndSurviveTheirNeighbours) {
  std::mt19937_64 random(1);
  std::vector<Filled> parts;
  {
    SlabAllocator slabs(1 << 20);
    for (int i = 0; i < 400; ++i) {
      Filled filled{{}, 1 + random() % (random() % 4 == 0 ? 300000 : 3000), static_cast<char>(i)};
      ASSERT_TRUE(slabs.Allocate(filled.size, &filled.slice).ok());
      ASSERT_EQ(reinterpret_cast<uintptr_t>(filled.slice.data()) % 64, 0U);
      ASSERT_GE(filled.slice.footprint_bytes(), filled.size);
      ASSERT_LE(filled.slice.footprint_bytes(), filled.size + 4096);
      std::memset(filled.slice.data(), filled.byte, filled.size);
      parts.push_back(std::move(filled));
      // Some slices of a slab are freed while others stay.
      if (random() % 3 == 0) {
        std::swap(parts[random() % parts.size()], parts.back());
        ASSERT_TRUE(Intact(parts.back()));
        parts.pop_back();
      }
    }
  }
  // The slices outlive the allocator.
  for (const Filled& filled : parts) ASSERT_TRUE(Intact(filled));
}

TEST(PartMemoryTest, LargerThanASlabGetsItsOwn) {
  SlabAllocator slabs(64 << 10);
  PartSlice slice;
  ASSERT_TRUE(slabs.Allocate(1 << 20, &slice).ok());
  std::memset(slice.data(), 1, 1 << 20);
}

TEST(PartMemoryTest, RefusedMemoryIsAStatus) {
  PartSlice slice;
  EXPECT_EQ(PartSlice::Allocate(size_t{1} << 60, &slice, Placement()).code(), Code::kOutOfMemory);
  EXPECT_EQ(slice.data(), nullptr);
}

TEST(PartMemoryTest, MovedSliceIsFreedOnce) {
  for (const size_t size : {size_t{100}, size_t{1} << 20}) {
    PartSlice a;
    ASSERT_TRUE(PartSlice::Allocate(size, &a, Placement()).ok());
    char* const data = a.data();
    PartSlice b(std::move(a));
    PartSlice c;
    c = std::move(b);
    EXPECT_EQ(c.data(), data);
    std::memset(c.data(), 1, size);
  }
}

}  // namespace
}  // namespace engine_race

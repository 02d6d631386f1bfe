#include "engine_race/index/cell_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace engine_race {
namespace {

struct Stretch {
  uint64_t min_key;
  uint64_t max_key;
  uint32_t cells;
};

const std::vector<Stretch>& Stretches() {
  static const std::vector<Stretch> stretches = {
      {0, 0, 1},
      {7, 7, 100},
      {7, 8, 100},
      {0, ~uint64_t{0}, 1},
      {0, ~uint64_t{0}, 7813},
      {0, ~uint64_t{0} - 1, 1u << 20},
      {~uint64_t{0} - 5, ~uint64_t{0}, 3},
      {uint64_t{5} << 54, (uint64_t{6} << 54) - 1, 7813},
      {1000, 63499, 7813},
      {1000, 1999, 1u << 20},
  };
  return stretches;
}

TEST(CellMapTest, StaysBelowTheCellCountAndNeverFalls) {
  std::mt19937_64 random(1);
  for (const Stretch& s : Stretches()) {
    const CellMap map = CellMap::Over(s.min_key, s.max_key, s.cells);
    EXPECT_GE(map.cell_count(), 1U);
    EXPECT_LE(map.cell_count(), s.cells);
    EXPECT_EQ(map.Of(s.min_key), 0U);
    EXPECT_LT(map.Of(s.max_key), map.cell_count());
    for (int i = 0; i < 2000; ++i) {
      const uint64_t width = s.max_key - s.min_key;
      uint64_t a = s.min_key + (width == ~uint64_t{0} ? random() : random() % (width + 1));
      uint64_t b = s.min_key + (width == ~uint64_t{0} ? random() : random() % (width + 1));
      if (a > b) std::swap(a, b);
      ASSERT_LE(map.Of(a), map.Of(b)) << a << " " << b;
    }
  }
}

TEST(CellMapTest, UsesItsCells) {
  for (const Stretch& s : Stretches()) {
    const CellMap map = CellMap::Over(s.min_key, s.max_key, s.cells);
    EXPECT_EQ(map.Of(s.max_key), map.cell_count() - 1) << s.min_key << " " << s.max_key;
  }
}

TEST(CellMapTest, FinerCellsNestInCoarseOnes) {
  std::mt19937_64 random(2);
  for (const Stretch& s : Stretches()) {
    const CellMap map = CellMap::Over(s.min_key, s.max_key, s.cells);
    for (uint32_t bits = 0; bits <= std::min(map.spare_bits(), 4U); ++bits) {
      const CellMap finer = map.Finer(bits);
      for (int i = 0; i < 1000; ++i) {
        const uint64_t width = s.max_key - s.min_key;
        const uint64_t key =
            s.min_key + (width == ~uint64_t{0} ? random() : random() % (width + 1));
        ASSERT_EQ(finer.Of(key) >> bits, map.Of(key));
        ASSERT_LT(finer.Of(key), finer.cell_count());
      }
    }
  }
}

TEST(CellMapTest, SequentialKeysSpreadEvenly) {
  const CellMap map = CellMap::Over(1000000, 1000000 + 8191, 1024);
  std::vector<int> sizes(map.cell_count());
  for (uint64_t key = 1000000; key < 1000000 + 8192; ++key) ++sizes[map.Of(key)];
  for (const int size : sizes) EXPECT_EQ(size, 8);
}

}  // namespace
}  // namespace engine_race

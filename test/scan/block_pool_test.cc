#include "engine_race/scan/block_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace engine_race {
namespace {

constexpr size_t kBlockBytes = 8192;

TEST(BlockPoolTest, HandsOutEachBlockOnce) {
  BlockPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 5).ok());
  std::vector<uint32_t> blocks;
  ASSERT_TRUE(pool.Take(3, &blocks));
  ASSERT_TRUE(pool.Take(2, &blocks));
  EXPECT_EQ(5u, std::set<uint32_t>(blocks.begin(), blocks.end()).size());
  EXPECT_EQ(0u, pool.free_count());
  for (uint32_t block : blocks) std::memset(pool.data(block), static_cast<int>(block), kBlockBytes);
  for (uint32_t block : blocks) EXPECT_EQ(static_cast<char>(block), pool.data(block)[8191]);
}

TEST(BlockPoolTest, TakesAllOrNothing) {
  BlockPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 4).ok());
  std::vector<uint32_t> blocks;
  EXPECT_FALSE(pool.Take(5, &blocks));
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(4u, pool.free_count());
  EXPECT_TRUE(pool.Take(0, &blocks));
}

TEST(BlockPoolTest, UsesAgainWhatWasGivenBack) {
  BlockPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 100).ok());
  std::vector<uint32_t> blocks;
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(pool.Take(3, &blocks));
    pool.Give(&blocks);
    EXPECT_TRUE(blocks.empty());
  }
  EXPECT_EQ(3 * kBlockBytes, pool.touched_bytes());
  EXPECT_EQ(100u, pool.free_count());
}

}  // namespace
}  // namespace engine_race

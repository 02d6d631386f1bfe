#include "engine_race/base/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace engine_race {
namespace {

constexpr size_t kBlockBytes = 8192;

TEST(BufferPoolTest, HandsOutEachBlockOnce) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 5).ok());
  std::vector<uint32_t> blocks;
  ASSERT_TRUE(pool.Take(3, &blocks));
  ASSERT_TRUE(pool.Take(2, &blocks));
  EXPECT_EQ(5u, std::set<uint32_t>(blocks.begin(), blocks.end()).size());
  EXPECT_EQ(0u, pool.free_count());
  for (uint32_t block : blocks) std::memset(pool.data(block), static_cast<int>(block), kBlockBytes);
  for (uint32_t block : blocks) EXPECT_EQ(static_cast<char>(block), pool.data(block)[8191]);
}

TEST(BufferPoolTest, TakesAllOrNothing) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 4).ok());
  std::vector<uint32_t> blocks;
  EXPECT_FALSE(pool.Take(5, &blocks));
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(4u, pool.free_count());
  EXPECT_TRUE(pool.Take(0, &blocks));
}

TEST(BufferPoolTest, UsesAgainWhatWasGivenBack) {
  BufferPool pool;
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

TEST(BufferPoolTest, WhatIsReleasedCountsAsUntouchedAndReadsAsZeros) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 4).ok());
  std::vector<uint32_t> blocks;
  ASSERT_TRUE(pool.Take(3, &blocks));
  for (uint32_t block : blocks) std::memset(pool.data(block), 7, kBlockBytes);
  EXPECT_EQ(0u, pool.Release(1)) << "all are in use";
  std::vector<uint32_t> given(blocks.begin(), blocks.begin() + 2);
  pool.Give(&given);
  EXPECT_EQ(2u, pool.Release(5));
  EXPECT_EQ(1u, pool.touched_count());
  EXPECT_EQ(3u, pool.free_count());
  EXPECT_EQ(7, pool.data(blocks[2])[100]);
  std::vector<uint32_t> again;
  ASSERT_TRUE(pool.Take(3, &again));
  again.push_back(blocks[2]);
  EXPECT_EQ(4u, std::set<uint32_t>(again.begin(), again.end()).size());
  EXPECT_EQ(0, pool.data(blocks[0])[100]);
  EXPECT_EQ(4u, pool.touched_count());
}

TEST(BufferPoolTest, NoMoreThanTheLimitIsHandedOut) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 8).ok());
  pool.SetLimit(3);
  std::vector<uint32_t> blocks;
  EXPECT_FALSE(pool.Take(4, &blocks));
  ASSERT_TRUE(pool.Take(3, &blocks));
  pool.SetLimit(2);
  EXPECT_EQ(0u, pool.free_count());
  // What holds memory may be used again.
  pool.Give(&blocks);
  EXPECT_EQ(3u, pool.free_count());
  pool.SetLimit(100);
  EXPECT_EQ(8u, pool.free_count());
}

TEST(BufferPoolTest, SingleOnesAreTakenInOrderAndUsedAgainTheLastFirst) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBlockBytes, 3, /*huge_pages=*/false).ok());
  uint32_t block = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.TakeOne(&block));
    EXPECT_EQ(block, i);
  }
  EXPECT_FALSE(pool.TakeOne(&block));
  pool.GiveOne(1);
  pool.GiveOne(0);
  ASSERT_TRUE(pool.TakeOne(&block));
  EXPECT_EQ(block, 0u);
  EXPECT_EQ(pool.free_count(), 1u);
}

}  // namespace
}  // namespace engine_race

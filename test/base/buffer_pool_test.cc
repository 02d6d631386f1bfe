#include "engine_race/base/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace engine_race {
namespace {

constexpr size_t kBufferBytes = 8192;

TEST(BufferPoolTest, HandsOutEachBufferOnce) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBufferBytes, 5).ok());
  std::vector<uint32_t> buffers;
  ASSERT_TRUE(pool.Take(3, &buffers));
  ASSERT_TRUE(pool.Take(2, &buffers));
  EXPECT_EQ(5u, std::set<uint32_t>(buffers.begin(), buffers.end()).size());
  EXPECT_EQ(0u, pool.free_count());
  for (uint32_t buffer : buffers)
    std::memset(pool.data(buffer), static_cast<int>(buffer), kBufferBytes);
  for (uint32_t buffer : buffers) EXPECT_EQ(static_cast<char>(buffer), pool.data(buffer)[8191]);
}

TEST(BufferPoolTest, TakesAllOrNothing) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBufferBytes, 4).ok());
  std::vector<uint32_t> buffers;
  EXPECT_FALSE(pool.Take(5, &buffers));
  EXPECT_TRUE(buffers.empty());
  EXPECT_EQ(4u, pool.free_count());
  EXPECT_TRUE(pool.Take(0, &buffers));
}

TEST(BufferPoolTest, UsesAgainWhatWasGivenBack) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBufferBytes, 100).ok());
  std::vector<uint32_t> buffers;
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(pool.Take(3, &buffers));
    pool.Give(&buffers);
    EXPECT_TRUE(buffers.empty());
  }
  EXPECT_EQ(3 * kBufferBytes, pool.touched_bytes());
  EXPECT_EQ(100u, pool.free_count());
}

TEST(BufferPoolTest, WhatIsReleasedCountsAsUntouchedAndReadsAsZeros) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBufferBytes, 4).ok());
  std::vector<uint32_t> buffers;
  ASSERT_TRUE(pool.Take(3, &buffers));
  for (uint32_t buffer : buffers) std::memset(pool.data(buffer), 7, kBufferBytes);
  EXPECT_EQ(0u, pool.Release(1)) << "all are in use";
  std::vector<uint32_t> given(buffers.begin(), buffers.begin() + 2);
  pool.Give(&given);
  EXPECT_EQ(2u, pool.Release(5));
  EXPECT_EQ(1u, pool.touched_count());
  EXPECT_EQ(3u, pool.free_count());
  EXPECT_EQ(7, pool.data(buffers[2])[100]);
  std::vector<uint32_t> again;
  ASSERT_TRUE(pool.Take(3, &again));
  again.push_back(buffers[2]);
  EXPECT_EQ(4u, std::set<uint32_t>(again.begin(), again.end()).size());
  EXPECT_EQ(0, pool.data(buffers[0])[100]);
  EXPECT_EQ(4u, pool.touched_count());
}

TEST(BufferPoolTest, NoMoreThanTheLimitIsHandedOut) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBufferBytes, 8).ok());
  pool.SetLimit(3);
  std::vector<uint32_t> buffers;
  EXPECT_FALSE(pool.Take(4, &buffers));
  ASSERT_TRUE(pool.Take(3, &buffers));
  pool.SetLimit(2);
  EXPECT_EQ(0u, pool.free_count());
  // What holds memory may be used again.
  pool.Give(&buffers);
  EXPECT_EQ(3u, pool.free_count());
  pool.SetLimit(100);
  EXPECT_EQ(8u, pool.free_count());
}

TEST(BufferPoolTest, SingleOnesAreTakenInOrderAndUsedAgainTheLastFirst) {
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(kBufferBytes, 3, /*huge_pages=*/false).ok());
  uint32_t buffer = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.TakeOne(&buffer));
    EXPECT_EQ(buffer, i);
  }
  EXPECT_FALSE(pool.TakeOne(&buffer));
  pool.GiveOne(1);
  pool.GiveOne(0);
  ASSERT_TRUE(pool.TakeOne(&buffer));
  EXPECT_EQ(buffer, 0u);
  EXPECT_EQ(pool.free_count(), 1u);
}

}  // namespace
}  // namespace engine_race

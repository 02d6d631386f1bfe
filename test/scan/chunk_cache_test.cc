#include "engine_race/scan/chunk_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace engine_race {
namespace {

// Chunk i covers the keys [100 i, 100 i + 99] and takes one buffer; there are eight buffers.
class ChunkCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cache_.Allocate(8, nullptr, Placement()).ok()); }

  Chunk* Add(uint64_t number, uint32_t buffer_count = 1) {
    Chunk* chunk = cache_.NewChunk();
    chunk->first_key = number * 100;
    chunk->last_key = number * 100 + 99;
    EXPECT_TRUE(cache_.pool().Take(buffer_count, &chunk->buffers));
    chunk->Place(cache_.layout(), cache_.pool().base(), chunk->buffers, false);
    cache_.Insert(chunk);
    chunk->SetReady();
    return chunk;
  }

  ChunkCache cache_{BufferLayout()};
};

TEST_F(ChunkCacheTest, FindsByAnyKeyOfAChunk) {
  Chunk* two = Add(2);
  Add(4);
  EXPECT_EQ(two, cache_.Find(200));
  EXPECT_EQ(two, cache_.Find(299));
  EXPECT_EQ(nullptr, cache_.Find(199));
  EXPECT_EQ(nullptr, cache_.Find(300));
  uint64_t low = 0;
  uint64_t high = 0;
  cache_.FreeRange(350, &low, &high);
  EXPECT_EQ(300u, low);
  EXPECT_EQ(399u, high);
  cache_.FreeRange(50, &low, &high);
  EXPECT_EQ(0u, low);
  EXPECT_EQ(199u, high);
  cache_.FreeRange(700, &low, &high);
  EXPECT_EQ(500u, low);
  EXPECT_EQ(~uint64_t{0}, high);
}

TEST_F(ChunkCacheTest, ARemovedChunkLivesUntilItIsUnpinned) {
  Chunk* chunk = Add(1);
  cache_.Pin(chunk);
  cache_.Remove(chunk);
  EXPECT_EQ(nullptr, cache_.Find(100));
  EXPECT_EQ(7u, cache_.pool().free_count());
  EXPECT_EQ(100u, chunk->first_key);
  EXPECT_TRUE(cache_.Unpin(chunk));
  EXPECT_EQ(8u, cache_.pool().free_count());
}

TEST_F(ChunkCacheTest, ChunksWithoutRecordsAreBoundedToo) {
  EXPECT_FALSE(cache_.full());
  for (uint64_t i = 0; i < cache_.max_chunks(); ++i) Add(i, 0);
  EXPECT_TRUE(cache_.full());
}

TEST_F(ChunkCacheTest, WhatIsFreeAboveTheLimitIsGivenBack) {
  Chunk* kept = Add(0, 3);
  Add(1, 4);
  cache_.SetLimit(2 * cache_.booked_bytes());
  EXPECT_FALSE(cache_.FitLimit());
  EXPECT_EQ(7u, cache_.pool().touched_count());
  cache_.Remove(cache_.Find(100));
  EXPECT_FALSE(cache_.FitLimit());
  EXPECT_EQ(3u, cache_.pool().touched_count());
  cache_.Remove(kept);
  EXPECT_TRUE(cache_.FitLimit());
  EXPECT_EQ(2u, cache_.pool().touched_count());
}

}  // namespace
}  // namespace engine_race

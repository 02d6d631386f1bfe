#include "engine_race/scan/chunk_cache.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace engine_race {
namespace {

using Need = ChunkCache::Need;

// Chunk i covers the keys [100 i, 100 i + 99] and takes one block; there are eight blocks.
class ChunkCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cache_.Allocate(8, nullptr).ok()); }

  Chunk* Add(uint64_t number, uint32_t block_count = 1) {
    Chunk* chunk = cache_.NewChunk();
    chunk->first_key = number * 100;
    chunk->last_key = number * 100 + 99;
    EXPECT_TRUE(cache_.pool().Take(block_count, &chunk->blocks));
    chunk->Place(cache_.pool(), false);
    cache_.Insert(chunk);
    chunk->SetReady();
    return chunk;
  }

  static Need Want(uint64_t number, bool waited_for, bool may_replace_passed = true) {
    Need need;
    need.first_key = number * 100;
    need.block_count = 1;
    need.waited_for = waited_for;
    need.may_replace_passed = may_replace_passed;
    return need;
  }

  // A scan at the start of chunk `pos`, its way loaded up to chunk `frontier`.
  Scanner* Attach(uint64_t pos, uint64_t frontier, uint64_t last = 10000) {
    scanners_.push_back(std::make_unique<Scanner>(pos * 100, last, 1));
    scanners_.back()->frontier = frontier * 100;
    attached_.push_back(scanners_.back().get());
    cache_.ReserveScanners(attached_.size());
    return attached_.back();
  }

  std::set<uint64_t> Cached() const {
    std::set<uint64_t> numbers;
    for (uint64_t i = 0; i < 100; ++i) {
      if (cache_.Find(i * 100) != nullptr) numbers.insert(i);
    }
    return numbers;
  }

  ChunkCache cache_;
  std::vector<std::unique_ptr<Scanner>> scanners_;
  std::vector<Scanner*> attached_;
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

TEST_F(ChunkCacheTest, WhatNobodyWantsGoesFirstTheHighestKeyBeforeOthers) {
  for (uint64_t i = 0; i < 8; ++i) Add(i);
  Attach(6, 8);
  for (const uint64_t gone : {5, 4, 3}) {
    ASSERT_TRUE(cache_.MakeRoom(Want(8, true), attached_));
    EXPECT_EQ(nullptr, cache_.Find(gone * 100)) << gone;
    Add(8 + (5 - gone));
    attached_[0]->frontier = (9 + (5 - gone)) * 100;
  }
  EXPECT_EQ((std::set<uint64_t>{0, 1, 2, 6, 7, 8, 9, 10}), Cached());
}

TEST_F(ChunkCacheTest, ReadingAheadLeavesWhatWasPassedWhenToldSo) {
  for (uint64_t i = 0; i < 8; ++i) Add(i);
  Attach(6, 8);
  EXPECT_FALSE(cache_.MakeRoom(Want(8, false, false), attached_));
  EXPECT_EQ(8u, Cached().size());
  EXPECT_TRUE(cache_.MakeRoom(Want(8, false, true), attached_));
}

TEST_F(ChunkCacheTest, TheForemostScanDoesNotPushOutWhatSlowerOnesNeed) {
  for (uint64_t i = 0; i < 8; ++i) Add(i);
  Attach(0, 8);
  Attach(8, 8)->waiting = true;
  EXPECT_FALSE(cache_.MakeRoom(Want(8, true), attached_));
  EXPECT_EQ(8u, Cached().size());
  attached_[0]->pos = 300;
  EXPECT_TRUE(cache_.MakeRoom(Want(8, true), attached_));
  EXPECT_EQ((std::set<uint64_t>{0, 1, 3, 4, 5, 6, 7}), Cached());
}

TEST_F(ChunkCacheTest, PinnedChunksStay) {
  std::vector<Chunk*> chunks;
  for (uint64_t i = 0; i < 8; ++i) chunks.push_back(Add(i));
  for (uint64_t i = 1; i < 8; ++i) cache_.Pin(chunks[i]);
  EXPECT_TRUE(cache_.MakeRoom(Want(20, true), attached_));
  EXPECT_EQ(nullptr, cache_.Find(0));
  Add(20);
  cache_.Pin(cache_.Find(2000));
  EXPECT_FALSE(cache_.MakeRoom(Want(21, true), attached_));
}

TEST_F(ChunkCacheTest, FarScansShareTheMemoryByGroups) {
  // Two groups: one has read ahead over the whole memory, the other waits with nothing.
  for (uint64_t i = 0; i < 8; ++i) Add(i);
  Attach(0, 8);
  Attach(50, 50)->waiting = true;
  ASSERT_TRUE(cache_.MakeRoom(Want(50, true), attached_));
  EXPECT_EQ((std::set<uint64_t>{0, 1, 2, 3, 4, 5, 6}), Cached()) << "the furthest ahead goes";
  EXPECT_EQ(700u, attached_[0]->frontier) << "and the scan is told";
}

TEST_F(ChunkCacheTest, ReadingAheadTakesOnlyWhatIsWantedLater) {
  for (uint64_t i = 0; i < 4; ++i) Add(i);
  for (uint64_t i = 60; i < 64; ++i) Add(i);
  Attach(0, 4);
  ASSERT_TRUE(cache_.MakeRoom(Want(4, false, false), attached_));
  EXPECT_EQ(nullptr, cache_.Find(6300));
  Add(4);
  attached_[0]->frontier = 500;
  EXPECT_FALSE(cache_.MakeRoom(Want(70, false, false), attached_));
}

TEST_F(ChunkCacheTest, ARemovedChunkLivesUntilItIsUnpinned) {
  Chunk* chunk = Add(1);
  cache_.Pin(chunk);
  cache_.Remove(chunk, attached_);
  EXPECT_EQ(nullptr, cache_.Find(100));
  EXPECT_EQ(7u, cache_.pool().free_count());
  EXPECT_EQ(100u, chunk->first_key);
  EXPECT_TRUE(cache_.Unpin(chunk, false));
  EXPECT_EQ(8u, cache_.pool().free_count());
}

TEST_F(ChunkCacheTest, BlocksHeldByDetachedScansAreNotAvailable) {
  Chunk* chunk = Add(1, 3);
  cache_.Pin(chunk);
  cache_.Pin(chunk);
  EXPECT_EQ(8u, cache_.available_blocks());
  cache_.MarkDetached(chunk);
  cache_.MarkDetached(chunk);
  EXPECT_EQ(5u, cache_.available_blocks());
  EXPECT_FALSE(cache_.Unpin(chunk, true));
  EXPECT_EQ(5u, cache_.available_blocks());
  EXPECT_TRUE(cache_.Unpin(chunk, true));
  EXPECT_EQ(8u, cache_.available_blocks());
}

TEST_F(ChunkCacheTest, ChunksWithoutRecordsAreBoundedToo) {
  uint64_t added = 0;
  while (added < 1000) {
    Need need = Want(added, true);
    need.block_count = 0;
    ASSERT_TRUE(cache_.MakeRoom(need, attached_));
    Add(added++, 0);
  }
  EXPECT_LE(Cached().size(), 100u);
}

}  // namespace
}  // namespace engine_race

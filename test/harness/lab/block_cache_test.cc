#include "harness/lab/block_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "test/index/refused_memory.h"

namespace engine_race::lab {

namespace {

constexpr size_t kBytes = 4096;

BlockCache::OwnedEntry Filled(uint64_t word) {
  BlockCache::OwnedEntry made = BlockCache::Make(kBytes);
  for (size_t at = 0; at < kBytes; at += 8) std::memcpy(made->data + at, &word, 8);
  return made;
}

bool Holds(const char* data, uint64_t word) {
  for (size_t at = 0; at < kBytes; at += 8) {
    if (std::memcmp(data + at, &word, 8) != 0) return false;
  }
  return true;
}

// Room for `count` entries. The caches have one shard, so the next entry to be evicted is known.
size_t RoomFor(size_t count) { return count * (kBytes + sizeof(BlockCache::Entry)); }

bool Has(BlockCache* cache, uint64_t key) {
  BlockCache::Entry* const entry = cache->Lookup(key);
  if (entry == nullptr) return false;
  EXPECT_TRUE(Holds(entry->data, key));
  cache->Release(entry);
  return true;
}

TEST(BlockCacheTest, FindsWhatWasInsertedAndNothingElse) {
  BlockCache cache(size_t{64} << 20);
  for (uint64_t key = 0; key < 1000; ++key) cache.Release(cache.Insert(key * 7, Filled(key * 7)));
  for (uint64_t key = 0; key < 7000; ++key) ASSERT_EQ(Has(&cache, key), key % 7 == 0) << key;
}

TEST(BlockCacheTest, TheOneThatWasUsedLongestAgoGoes) {
  BlockCache cache(RoomFor(3), /*shard_bits=*/0);
  for (const uint64_t key : {1, 2, 3}) cache.Release(cache.Insert(key, Filled(key)));
  EXPECT_TRUE(Has(&cache, 1));
  cache.Release(cache.Insert(4, Filled(4)));
  EXPECT_FALSE(Has(&cache, 2));
  cache.Release(cache.Insert(5, Filled(5)));
  EXPECT_FALSE(Has(&cache, 3));
  EXPECT_TRUE(Has(&cache, 1));
  EXPECT_TRUE(Has(&cache, 4));
  EXPECT_EQ(cache.used_bytes(), RoomFor(3));
}

TEST(BlockCacheTest, WhatIsHeldStaysHoweverFullTheCache) {
  BlockCache cache(RoomFor(2), /*shard_bits=*/0);
  BlockCache::Entry* const held = cache.Insert(1, Filled(1));
  BlockCache::Entry* const again = cache.Lookup(1);
  EXPECT_EQ(held, again);
  for (uint64_t key = 2; key < 20; ++key) cache.Release(cache.Insert(key, Filled(key)));
  EXPECT_TRUE(Holds(held->data, 1));
  cache.Release(held);
  EXPECT_TRUE(Holds(again->data, 1));
  EXPECT_TRUE(Has(&cache, 1));
  cache.Release(again);
  for (uint64_t key = 20; key < 25; ++key) cache.Release(cache.Insert(key, Filled(key)));
  EXPECT_FALSE(Has(&cache, 1));
}

TEST(BlockCacheTest, WhoInsertsSecondGetsWhatIsThere) {
  BlockCache cache(RoomFor(10), /*shard_bits=*/0);
  BlockCache::Entry* const first = cache.Insert(1, Filled(1));
  BlockCache::Entry* const second = cache.Insert(1, Filled(999));
  EXPECT_EQ(first, second);
  EXPECT_TRUE(Holds(second->data, 1));
  cache.Release(first);
  cache.Release(second);
  EXPECT_EQ(cache.used_bytes(), RoomFor(1));
}

TEST(BlockCacheTest, APinLetsGo) {
  BlockCache cache(RoomFor(1), /*shard_bits=*/0);
  {
    BlockCache::Pin pin(&cache, cache.Insert(1, Filled(1)));
    BlockCache::Pin moved(std::move(pin));
    pin = BlockCache::Pin(&cache, cache.Insert(2, Filled(2)));
    EXPECT_TRUE(Holds(moved.data(), 1));
    EXPECT_TRUE(Holds(pin.data(), 2));
  }
  EXPECT_LE(cache.used_bytes(), RoomFor(1));
}

TEST(BlockCacheTest, RefusedMemoryIsAnAnswer) {
  const test::RefuseMemory refuse(0);
  EXPECT_EQ(BlockCache::Make(kBytes), nullptr);
}

TEST(BlockCacheTest, ManyThreadsShareASmallOne) {
  BlockCache cache(RoomFor(40), /*shard_bits=*/2);
  std::vector<std::thread> threads;
  std::atomic<uint64_t> wrong{0};
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      uint64_t random = thread + 1;
      for (int i = 0; i < 3000; ++i) {
        random = random * 6364136223846793005 + 1442695040888963407;
        const uint64_t key = (random >> 40) % 100;
        BlockCache::Entry* entry = cache.Lookup(key);
        if (entry == nullptr) entry = cache.Insert(key, Filled(key));
        if (!Holds(entry->data, key)) wrong.fetch_add(1);
        cache.Release(entry);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_LE(cache.used_bytes(), RoomFor(40));
}

}  // namespace
}  // namespace engine_race::lab

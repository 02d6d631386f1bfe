// ChunkMap against a std::map, through inserts and removals that fill, split and merge its blocks.
#include "engine_race/scan/chunk_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace engine_race {
namespace {

// Chunk i covers the keys [10 i + 2, 10 i + 7].
class ChunkMapTest : public ::testing::Test {
 protected:
  Chunk* Add(uint64_t number, uint32_t buffer_count = 1) {
    auto chunk = std::make_unique<Chunk>();
    chunk->first_key = number * 10 + 2;
    chunk->last_key = number * 10 + 7;
    chunk->buffers.resize(buffer_count);
    map_.Insert(chunk.get());
    return (chunks_[number] = std::move(chunk)).get();
  }
  void Remove(uint64_t number) {
    map_.Remove(chunks_.at(number).get());
    chunks_.erase(number);
  }
  void ExpectTheSame() {
    ASSERT_EQ(map_.size(), chunks_.size());
    auto at = map_.begin();
    for (const auto& [number, chunk] : chunks_) {
      ASSERT_TRUE(at != map_.end());
      ASSERT_EQ(at->chunk, chunk.get());
      ++at;
    }
    ASSERT_TRUE(at == map_.end());
    for (auto expected = chunks_.rbegin(); expected != chunks_.rend(); ++expected) {
      --at;
      ASSERT_EQ(at->chunk, expected->second.get());
    }
    ASSERT_TRUE(at == map_.begin());
  }
  void ExpectFinds(uint64_t key) {
    const auto next = chunks_.lower_bound((key + 2) / 10);
    const auto from = chunks_.lower_bound((key + 7) / 10);
    const auto is = [&](const ChunkMap::Iterator& at, auto expected) {
      return expected == chunks_.end() ? at == map_.end()
                                       : at != map_.end() && at->chunk == expected->second.get();
    };
    ASSERT_TRUE(is(map_.FirstEndingFrom(key), next)) << key;
    ASSERT_TRUE(is(map_.FirstBeginningFrom(key), from)) << key;
    const bool is_in = next != chunks_.end() && next->second->first_key <= key;
    ASSERT_EQ(map_.Find(key), is_in ? next->second.get() : nullptr) << key;
  }
  void ExpectSum(uint64_t from, uint64_t to) {
    uint64_t sum = 0;
    for (auto at = chunks_.lower_bound(from); at != chunks_.lower_bound(to); ++at) {
      sum += at->second->buffers.size();
    }
    ASSERT_EQ(map_.BuffersBetween(map_.FirstEndingFrom(from * 10), map_.FirstEndingFrom(to * 10)),
              sum);
  }

  std::map<uint64_t, std::unique_ptr<Chunk>> chunks_;
  ChunkMap map_;
};

TEST_F(ChunkMapTest, AnEmptyOneHoldsNothing) {
  ExpectTheSame();
  ExpectFinds(0);
  ExpectFinds(UINT64_MAX - 10);
  Add(3);
  Remove(3);
  ExpectTheSame();
  ExpectFinds(35);
}

TEST_F(ChunkMapTest, HoldsWhatIsAddedInAnyOrder) {
  constexpr uint64_t kCount = 3000;
  for (uint64_t i = 0; i < kCount; ++i) Add(i);
  for (uint64_t i = 0; i < kCount; ++i) Add(2 * kCount - i);
  for (uint64_t i = 0; i < kCount; ++i) Add(3 * kCount + i * 7919 % kCount);
  ExpectTheSame();
  for (uint64_t key = 0; key < 10 * 4 * kCount; key += 7) ExpectFinds(key);
  for (uint64_t i = 0; i < kCount; ++i) Remove(i);
  for (uint64_t i = 0; i < kCount; ++i) Remove(4 * kCount - 1 - i);
  ExpectTheSame();
}

TEST_F(ChunkMapTest, AgreesWithAStdMapThroughRandomChanges) {
  std::mt19937_64 random(1);
  constexpr uint64_t kNumbers = 4000;
  for (const uint64_t added_percent : {90, 50, 10, 60, 0}) {
    for (uint64_t step = 0; step < 3 * kNumbers; ++step) {
      const uint64_t number = random() % kNumbers;
      const bool adds = random() % 100 < added_percent;
      if (adds && chunks_.count(number) == 0) Add(number, static_cast<uint32_t>(random() % 5));
      if (!adds && chunks_.count(number) != 0) Remove(number);
      ExpectFinds(random() % (10 * kNumbers));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectTheSame());
    for (int i = 0; i < 200; ++i) {
      const uint64_t from = random() % kNumbers;
      ASSERT_NO_FATAL_FAILURE(ExpectSum(from, from + random() % (kNumbers - from + 1)));
    }
  }
}

}  // namespace
}  // namespace engine_race

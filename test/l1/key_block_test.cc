#include "engine_race/l1/key_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "test/l1/extent_test_util.h"

namespace engine_race::test {
namespace {

using format::kIndexBlockRecords;
using format::kIndexFences;
using l1::FenceBlock;
using l1::GuessRank;
using l1::KeyBounds;
using l1::RecordBlock;

constexpr uint64_t kTopBit = uint64_t{1} << 63;

// Key sets that a guess finds easy and hard.
enum class Spread { kUniform, kDense, kDenseHigh, kSteps, kExtremes, kAcrossTheTop, kOneFarAway };
constexpr Spread kSpreads[] = {Spread::kUniform,   Spread::kDense,    Spread::kDenseHigh,
                               Spread::kSteps,     Spread::kExtremes, Spread::kAcrossTheTop,
                               Spread::kOneFarAway};

uint64_t KeyOfSpread(Spread spread, std::mt19937_64* random, size_t i) {
  const uint64_t word = (*random)();
  switch (spread) {
    case Spread::kUniform:
      return word;
    case Spread::kDense:
      return 1000 + i;
    case Spread::kDenseHigh:
      return kLastKey - i;
    case Spread::kSteps:
      return uint64_t{1} << (word % 64) | (word >> 32) % 16;
    case Spread::kExtremes:
      return i % 2 == 0 ? i : kLastKey - i;
    case Spread::kAcrossTheTop:
      return kTopBit - 100 + word % 2000;
    case Spread::kOneFarAway:
      return i == 0 ? kLastKey : word % 5000;
  }
  return 0;
}

std::vector<uint64_t> KeysOf(Spread spread, size_t count, std::mt19937_64* random) {
  std::set<uint64_t> keys;
  for (size_t i = 0; i < 20 * count && keys.size() < count; ++i) {
    keys.insert(KeyOfSpread(spread, random, i));
  }
  return {keys.begin(), keys.end()};
}

// Every key, its neighbours, and the ends of all keys.
std::set<uint64_t> ProbesFor(const std::vector<uint64_t>& keys, std::mt19937_64* random) {
  std::set<uint64_t> probes = {0, 1, kTopBit - 1, kTopBit, kTopBit + 1, kLastKey - 1, kLastKey};
  for (const uint64_t key : keys) {
    for (const uint64_t probe : {key - 1, key, key + 1, (*random)()}) probes.insert(probe);
  }
  return probes;
}

uint32_t RankOf(const std::vector<uint64_t>& keys, uint64_t key) {
  return static_cast<uint32_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin());
}

std::vector<KeyBounds> BoundsToTry(const std::vector<uint64_t>& keys, std::mt19937_64* random) {
  return {{keys.front(), keys.back()},
          {0, kLastKey},
          {kLastKey, 0},
          {7, 7},
          {(*random)(), (*random)()}};
}

TEST(RecordBlockTest, FindsTheKeysThatItHasAndNoOthers) {
  std::mt19937_64 random(1);
  const BlockMemory memory;
  auto* const stored = reinterpret_cast<format::IndexRecordBlock*>(memory.data());
  for (const Spread spread : kSpreads) {
    for (const size_t count : {1, 2, 3, 11, 12, 31, 32, 33, 34, 63, 100, 200, 254, 255}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(spread) << ", " << count);
      const std::vector<uint64_t> keys = KeysOf(spread, count, &random);
      // What lies behind the last key must not count.
      std::memset(memory.data(), random() % 2 == 0 ? 0 : 0xff, format::kIndexBlockBytes);
      stored->header.record_count = static_cast<uint32_t>(keys.size());
      std::copy(keys.begin(), keys.end(), stored->keys);
      const std::vector<uint64_t> words = WordsBeside(keys);
      std::copy(words.begin(), words.end(), stored->words);
      const RecordBlock block(memory.data());
      ASSERT_EQ(block.count(), keys.size());
      ASSERT_EQ(block.bounds().first, keys.front());
      ASSERT_EQ(block.bounds().last, keys.back());
      for (const uint64_t key : ProbesFor(keys, &random)) {
        const uint32_t rank = RankOf(keys, key);
        const bool there = rank < keys.size() && keys[rank] == key;
        if (there) {
          ASSERT_EQ(block.words()[rank], WordBeside(key));
        }
        // Whatever bounds are given, wrong ones included.
        for (const KeyBounds& bounds : BoundsToTry(keys, &random)) {
          ASSERT_EQ(block.Find(key, bounds), there ? rank : keys.size()) << key;
        }
      }
    }
  }
}

TEST(FenceBlockTest, NamesTheLastBlockWhoseFirstKeyIsNotAbove) {
  std::mt19937_64 random(2);
  const BlockMemory memory;
  auto* const stored = reinterpret_cast<format::IndexFenceBlock*>(memory.data());
  for (const Spread spread : kSpreads) {
    for (const size_t count : {1, 2, 3, 11, 12, 13, 14, 100, 255, 509, 510}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(spread) << ", " << count);
      const std::vector<uint64_t> keys = KeysOf(spread, count, &random);
      std::memset(memory.data(), random() % 2 == 0 ? 0 : 0xff, format::kIndexBlockBytes);
      stored->header.record_count = static_cast<uint32_t>(keys.size());
      std::copy(keys.begin(), keys.end(), stored->first_keys);
      const FenceBlock fences(memory.data());
      ASSERT_EQ(fences.block_count(), keys.size());
      for (const uint64_t key : ProbesFor(keys, &random)) {
        const auto above = std::upper_bound(keys.begin(), keys.end(), key);
        const auto expected = std::max<ptrdiff_t>(1, above - keys.begin());
        for (const KeyBounds& bounds : BoundsToTry(keys, &random)) {
          ASSERT_EQ(fences.BlockOf(key, bounds), static_cast<uint32_t>(expected)) << key;
        }
      }
    }
  }
}

TEST(FenceBlockTest, ABlockEndsBeforeTheNextBegins) {
  const BlockMemory memory;
  auto* const stored = reinterpret_cast<format::IndexFenceBlock*>(memory.data());
  stored->header.record_count = 3;
  std::copy_n(EvenKeys(10, 10, 4).begin(), 4, stored->first_keys);
  const FenceBlock fences(memory.data());
  const std::pair<uint64_t, uint64_t> expected[] = {{10, 19}, {20, 29}, {30, 77}};
  for (uint32_t number = 1; number <= 3; ++number) {
    const KeyBounds bounds = fences.BoundsOf(number, 77);
    EXPECT_EQ(std::pair(bounds.first, bounds.last), expected[number - 1]);
  }
}

// A damaged or hostile block may have passed its checksum: its keys need not ascend.
TEST(KeyBlockTest, SearchesStayInsideABlockWhoseKeysDoNotAscend) {
  std::mt19937_64 random(3);
  const BlockMemory memory;
  auto* const records = reinterpret_cast<format::IndexRecordBlock*>(memory.data());
  auto* const fences = reinterpret_cast<format::IndexFenceBlock*>(memory.At(1));
  for (int round = 0; round < 500; ++round) {
    for (uint64_t& key : records->keys) key = random();
    for (uint64_t& key : fences->first_keys) key = random();
    records->header.record_count = 1 + random() % kIndexBlockRecords;
    fences->header.record_count = 1 + random() % kIndexFences;
    for (const uint64_t key : {uint64_t{0}, kTopBit, kLastKey, random(), records->keys[7]}) {
      const RecordBlock block(memory.data());
      ASSERT_LE(block.Find(key, block.bounds()), block.count());
      const uint32_t number = FenceBlock(memory.At(1)).BlockOf(key, {random(), random()});
      ASSERT_GE(number, 1u);
      ASSERT_LE(number, fences->header.record_count);
    }
  }
}

// The window's comparison with wide registers, and its twin without.
template <typename Scan>
class WindowTest : public testing::Test {};
using Scans = testing::Types<l1::WindowScan<l1::kRecordWindowKeys>,
                             l1::PortableWindowScan<l1::kRecordWindowKeys>>;
TYPED_TEST_SUITE(WindowTest, Scans);

TYPED_TEST(WindowTest, FindsWhatTheStandardFindsWhateverTheGuess) {
  std::mt19937_64 random(4);
  for (const Spread spread : kSpreads) {
    for (size_t count = 1; count <= kIndexBlockRecords; count += 1 + count / 8) {
      const std::vector<uint64_t> keys = KeysOf(spread, count, &random);
      const auto size = static_cast<uint32_t>(keys.size());
      for (const uint64_t key : ProbesFor(keys, &random)) {
        const uint32_t rank = RankOf(keys, key);
        for (const uint32_t guess :
             {0u, size - 1, static_cast<uint32_t>(random() % size), std::min(rank, size - 1)}) {
          SCOPED_TRACE(testing::Message()
                       << static_cast<int>(spread) << " " << size << " " << guess);
          const bool is_there = rank < size && keys[rank] == key;
          constexpr uint32_t kWindow = l1::kRecordWindowKeys;
          const uint32_t at = l1::FindNear<kWindow, TypeParam>(keys.data(), size, guess, key);
          ASSERT_EQ(at, is_there ? rank : size);
          const uint32_t upper =
              l1::UpperRankNear<kWindow, TypeParam>(keys.data(), size, guess, key);
          ASSERT_EQ(upper, rank + (is_there ? 1 : 0));
        }
      }
    }
  }
}

TEST(GuessRankTest, LiesBetweenTheFirstAndTheLast) {
  constexpr uint64_t kMax = ~uint64_t{0};
  EXPECT_EQ(GuessRank({100, 200}, 100, 10), 0u);
  EXPECT_EQ(GuessRank({100, 200}, 155, 10), 5u);
  EXPECT_EQ(GuessRank({100, 200}, 199, 10), 9u);
  EXPECT_EQ(GuessRank({100, 200}, 200, 10), 9u);
  EXPECT_EQ(GuessRank({7, 7}, 7, 10), 0u);
  EXPECT_EQ(GuessRank({0, kMax}, kMax - 1, 1000), 999u);
  EXPECT_EQ(GuessRank({0, kMax}, kMax / 2, 1), 0u);
}

TEST(GuessRankTest, IsARankWhateverTheBounds) {
  std::mt19937_64 random(5);
  const uint64_t words[] = {0, 1, 2, kTopBit - 1, kTopBit, kLastKey - 1, kLastKey, random()};
  for (const uint64_t first : words) {
    for (const uint64_t last : words) {
      for (const uint64_t key : words) {
        for (const uint32_t count : {1u, 2u, 255u, 510u}) {
          ASSERT_LT(GuessRank({first, last}, key, count), count) << first << " " << last;
        }
      }
    }
  }
}

}  // namespace
}  // namespace engine_race::test

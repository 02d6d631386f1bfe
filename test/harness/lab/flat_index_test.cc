#include "harness/lab/flat_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "engine_race/base/options.h"

namespace engine_race::lab {
namespace {

Geometry TwoBuckets() {
  Options options;
  options.bucket_count = 2;
  options.file_count = 2;
  return GeometryFrom(options);
}

// Ascending keys of a bucket of two: `spread` 0 makes them neighbours.
std::vector<IndexEntry> Entries(uint32_t bucket, size_t count, uint64_t spread) {
  std::mt19937_64 random(bucket + spread);
  std::vector<uint64_t> keys;
  const uint64_t first = uint64_t{bucket} << 63;
  while (keys.size() < count) {
    keys.push_back(first + (spread == 0 ? keys.size() : random() % spread));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<IndexEntry> entries;
  for (const uint64_t key : keys) {
    entries.push_back({key, ValueRef(static_cast<uint32_t>(entries.size()), 7, false)});
  }
  return entries;
}

// Finds all entries one by one and in batches, and none between them.
void ExpectAll(const FlatIndex& flat, const std::vector<IndexEntry>& entries) {
  std::array<uint64_t, FlatIndex::kBatchKeys> keys;
  std::array<ValueRef, FlatIndex::kBatchKeys> refs;
  for (size_t begin = 0; begin < entries.size(); begin += keys.size()) {
    const size_t count = std::min(keys.size(), entries.size() - begin);
    for (size_t i = 0; i < count; ++i) keys[i] = entries[begin + i].key;
    ASSERT_EQ(flat.FindBatch({keys.data(), count}, refs), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(refs[i].slot(), begin + i);
      ValueRef ref;
      ASSERT_TRUE(flat.Find(keys[i], &ref));
      ASSERT_EQ(ref.slot(), begin + i);
      const bool has_next = begin + i + 1 < entries.size();
      if (has_next && entries[begin + i + 1].key == keys[i] + 1) continue;
      ASSERT_FALSE(flat.Find(keys[i] + 1, &ref));
    }
  }
}

TEST(FlatIndexTest, FindsEveryKeyOfEveryShape) {
  const uint64_t all = ~uint64_t{0} >> 1;
  const size_t several_runs = 2 * FlatIndex::kRunKeys + 5;
  for (const auto& [count, spread] : {std::pair<size_t, uint64_t>{1, all},
                                      {2, all},
                                      {1000, all},
                                      {1000, 0},
                                      {5000, 20000},
                                      {several_runs, all},
                                      {several_runs, 0}}) {
    FlatIndex flat(TwoBuckets());
    for (const uint32_t bucket : {0u, 1u}) {
      ASSERT_TRUE(flat.AddBucket(bucket, Entries(bucket, count, spread)).ok());
    }
    for (const uint32_t bucket : {0u, 1u}) ExpectAll(flat, Entries(bucket, count, spread));
  }
}

// Keys that crowd lie far from where even spreading would put them.
TEST(FlatIndexTest, CrowdedKeysAreFoundInTheirCell) {
  std::vector<IndexEntry> entries = Entries(0, 4000, 0);
  entries.push_back({~uint64_t{0} >> 1, ValueRef(4000, 7, false)});
  FlatIndex flat(TwoBuckets());
  ASSERT_TRUE(flat.AddBucket(0, entries).ok());
  ExpectAll(flat, entries);
}

TEST(FlatIndexTest, AnEmptyBucketHasNoKeys) {
  FlatIndex flat(TwoBuckets());
  ASSERT_TRUE(flat.AddBucket(0, Entries(0, 10, 0)).ok());
  ValueRef ref;
  EXPECT_FALSE(flat.Find(uint64_t{1} << 63, &ref));
  const std::array<uint64_t, 3> keys = {3, uint64_t{1} << 63, 10};
  std::array<ValueRef, 3> refs;
  EXPECT_EQ(flat.FindBatch(keys, refs), 1u);
  EXPECT_EQ(refs[0].slot(), 3u);
}

}  // namespace
}  // namespace engine_race::lab

// The room that a bucket's index makes for the records of batches.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::ExpectFinds;
using test::MakeRecords;
using test::Model;
using test::Order;
using test::Shape;

constexpr uint32_t kKeysOfPart = 500;

TEST(BatchRoomTest, RoomThatWasPromisedIsGivenOnce) {
  constexpr uint32_t kBatch = 20000;
  BucketIndex index;
  index.Expect();
  ASSERT_TRUE(index.PrepareMany(kBatch, [](uint32_t i) { return uint64_t{i}; }).ok());
  ASSERT_TRUE(index.Install({}, false).ok());
  EXPECT_GT(index.memory_bytes(), kBatch * uint64_t{24});
  index.Forget();
  index.Expect();
  ASSERT_TRUE(index.Install({}, false).ok());
  EXPECT_LT(index.memory_bytes(), kBatch * uint64_t{24});
}

// A batch takes memory for its own records, however many parts the bucket has.
TEST(BatchRoomTest, ABatchTakesMemoryForItsRecords) {
  constexpr uint32_t kParts = 200;
  constexpr uint32_t kBatch = 4000;
  const std::vector<KeyRecord> records =
      MakeRecords(Shape::kUniform, kParts * kKeysOfPart, Order::kAlong);
  BucketIndex index;
  index.set_split_keys(kKeysOfPart);
  index.Expect();
  ASSERT_TRUE(index.Install(test::RowOf(records, kKeysOfPart), false).ok());
  Model model(records);
  const uint64_t bytes = index.memory_bytes();
  std::mt19937_64 random(7);
  for (int round = 0; round < 3; ++round) {
    std::vector<KeyRecord> batch;
    const auto slot = static_cast<uint32_t>(records.size() + round * kBatch);
    for (uint32_t i = 0; i < kBatch; ++i) {
      batch.push_back(test::RecordInSlot(records[random() % records.size()].key, slot + i));
    }
    ASSERT_TRUE(index.PrepareMany(kBatch, [&](uint32_t i) { return batch[i].key; }).ok());
    for (const KeyRecord& record : batch) {
      index.OnAppend(record);
      model.Add(record);
    }
    // A record takes 24 bytes, and deltas have up to four times the room that they need.
    EXPECT_LT(index.memory_bytes(), bytes + (round + 2) * kBatch * 24 * 4);
  }
  ExpectFinds(index, model);
}

// The second one has the only part split.
TEST(BatchRoomTest, LargeBatchesInARowTakeMemoryForTheirRecords) {
  constexpr uint32_t kBatch = 20 * kKeysOfPart;
  BucketIndex index;
  index.set_split_keys(kKeysOfPart);
  index.Expect();
  ASSERT_TRUE(index.Install({}, false).ok());
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 2 * kBatch, Order::kAlong);
  for (const uint32_t begin : {0U, kBatch}) {
    ASSERT_TRUE(index.PrepareMany(kBatch, [&](uint32_t i) { return records[begin + i].key; }).ok());
    for (uint32_t i = 0; i < kBatch; ++i) index.OnAppend(records[begin + i]);
  }
  EXPECT_LT(index.memory_bytes(), 2 * kBatch * uint64_t{24} * 2);
  ExpectFinds(index, Model(records));
}

// A delta as large as a batch would make each later write move half of its records.
TEST(BatchRoomTest, WhatABatchBringsIsMergedWithTheNextWrites) {
  constexpr uint32_t kBatch = 40000;
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, kBatch + 2, Order::kAlong);
  BucketIndex index;
  index.Expect();
  ASSERT_TRUE(index.Install({}, false).ok());
  ASSERT_TRUE(index.PrepareMany(kBatch, [&](uint32_t i) { return records[i].key; }).ok());
  for (uint32_t i = 0; i < kBatch; ++i) index.OnAppend(records[i]);
  // Records of deltas take 24 bytes, those of runs 17.
  EXPECT_GT(index.memory_bytes(), kBatch * uint64_t{24});
  for (uint32_t i = kBatch; i < records.size(); ++i) {
    ASSERT_TRUE(index.Prepare().ok());
    index.OnAppend(records[i]);
  }
  EXPECT_LT(index.memory_bytes(), kBatch * uint64_t{20});
  ExpectFinds(index, Model(records));
}

}  // namespace
}  // namespace engine_race

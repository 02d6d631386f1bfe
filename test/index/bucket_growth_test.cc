#include "engine_race/index/bucket_growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine_race/index/part_row.h"
#include "engine_race/index/read_write_lock.h"

namespace engine_race {
namespace {

// Three parts, which begin with the keys 0, 100 and 200 and have no run.
PartRow ThreeParts() {
  PartRow row = PartRow::OfNothing();
  PartReplacement by;
  for (const uint64_t first_key : {0, 100, 200}) {
    by.parts.push_back(std::make_unique<Part>());
    by.first_keys.push_back(first_key);
  }
  PartRow room = row.MakeRoom(0, 1, by);
  row.Replace(0, 1, &by, &room);
  return row;
}

class BucketGrowthTest : public ::testing::Test {
 protected:
  BucketGrowthTest() : row_(ThreeParts()) {}

  BucketGrowth::Bucket ForGrowth() {
    return {.lock = lock_,
            .row = row_,
            .frames = frames_,
            .shared = nullptr,
            .link = nullptr,
            .keeps_tombstones = false,
            .is_claimed = false,
            .may_be_paged = false,
            .births = 0,
            .index = nullptr};
  }
  // As another thread changes the row: the growth is not told of it.
  void FillDelta(size_t index, uint32_t capacity, uint32_t count) {
    Delta delta;
    ASSERT_TRUE(Delta::Create(capacity, &delta).ok());
    for (uint32_t i = 0; i < count; ++i) {
      delta.Append(100 * index + i, ValueRef(i, 0, false), /*stamp=*/0);
    }
    row_.part(index).delta = std::move(delta);
  }
  uint32_t CapacityOf(size_t index) const { return row_.part(index).delta.capacity(); }

  ReadWriteLock lock_;
  PartRow row_;
  const FrameSlots frames_;
  BucketGrowth growth_;
};

TEST_F(BucketGrowthTest, TheFullDeltaOfAChangedRowIsFoundAndGrows) {
  ASSERT_TRUE(growth_.MakeRoom(ForGrowth()).ok());
  for (const size_t full : {0, 1, 2}) {
    const size_t other = (full + 1) % 3;
    const size_t empty = (full + 2) % 3;
    ASSERT_NO_FATAL_FAILURE(FillDelta(full, 16, 16));
    ASSERT_NO_FATAL_FAILURE(FillDelta(other, 16, 15));
    row_.part(empty).delta = Delta();
    growth_.FindFull(row_);
    EXPECT_FALSE(growth_.HasRoom(row_));
    ASSERT_TRUE(growth_.MakeRoom(ForGrowth()).ok());
    EXPECT_TRUE(growth_.HasRoom(row_));
    EXPECT_GT(CapacityOf(full), 16U) << full;
    EXPECT_EQ(CapacityOf(other), 16U) << full;
    EXPECT_EQ(CapacityOf(empty), 0U) << full;
  }
}

// A part without new records has no delta, and gets the spare one with its next record.
TEST_F(BucketGrowthTest, PartsWithoutADeltaAreNotFull) {
  ASSERT_TRUE(growth_.MakeRoom(ForGrowth()).ok());
  ASSERT_NO_FATAL_FAILURE(FillDelta(1, 16, 3));
  growth_.FindFull(row_);
  EXPECT_TRUE(growth_.HasRoom(row_));
  growth_.Put(row_, 2, 200, ValueRef(7, 0, false), {}, {});
  EXPECT_EQ(row_.part(2).delta.count(), 1U);
}

// A batch makes room in the parts that it writes to, and leaves the others as they are.
TEST_F(BucketGrowthTest, ABatchGetsRoomInThePartsOfItsKeys) {
  ASSERT_TRUE(growth_.MakeRoom(ForGrowth()).ok());
  ASSERT_NO_FATAL_FAILURE(FillDelta(2, 16, 3));
  std::vector<uint64_t> keys = {0, 99};
  for (uint64_t i = 0; i < 500; ++i) keys.push_back(100 + i % 100);
  std::sort(keys.begin(), keys.end());
  ASSERT_TRUE(growth_.MakeRoomForKeys(ForGrowth(), keys).ok());
  EXPECT_EQ(CapacityOf(0), 16U);
  EXPECT_EQ(CapacityOf(1), 501U);
  EXPECT_EQ(CapacityOf(2), 16U);
  // None of its records finds a full delta.
  uint64_t version = 0;
  for (const uint64_t key : keys) {
    const size_t part = row_.PartOf(key);
    growth_.Put(row_, part, key, ValueRef(7, 0, false), {++version, /*watched=*/true}, {});
  }
  EXPECT_TRUE(growth_.HasRoom(row_));
  ASSERT_TRUE(growth_.MakeRoomForMany(ForGrowth(), 20).ok());
  // A full one was merged with its neighbour.
  EXPECT_EQ(row_.size(), 2U);
  for (size_t index = 0; index < row_.size(); ++index) {
    EXPECT_GT(CapacityOf(index), row_.part(index).delta.count() + 20) << index;
  }
}

// The keys of parts that a merge has left nothing of belong to the part before them.
TEST_F(BucketGrowthTest, ABatchGetsRoomInThePartThatTakesOverItsKeys) {
  ASSERT_TRUE(growth_.MakeRoom(ForGrowth()).ok());
  for (const size_t part : {1, 2}) {
    ASSERT_NO_FATAL_FAILURE(FillDelta(part, 64, 0));
    for (uint64_t i = 0; i < 60; ++i) {
      growth_.Put(row_, part, 100 * part + i, ValueRef(i, 0, true), {}, {});
    }
  }
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 60; ++i) keys.push_back(200 + i);
  ASSERT_TRUE(growth_.MakeRoomForKeys(ForGrowth(), keys).ok());
  ASSERT_EQ(row_.size(), 1U);
  EXPECT_GT(CapacityOf(0), 60U);
}

// What an opening must read again begins with the first record of a delta. If a copy of it was
// merged, it begins with the first record after the copy.
TEST_F(BucketGrowthTest, APartNotesTheMomentBeforeItsFirstRecords) {
  const auto put = [&](uint64_t key, const BucketMoment& before) {
    ASSERT_TRUE(growth_.MakeRoom(ForGrowth()).ok());
    growth_.Put(row_, 1, key, ValueRef(7, 0, false), {}, before);
  };
  const Part& part = row_.part(1);
  put(100, {40, 4});
  put(101, {50, 5});
  EXPECT_EQ(part.delta_since.record_count, 40U);
  EXPECT_EQ(part.delta_since.births, 4U);
  row_.part(1).NoteCopied();
  put(102, {60, 6});
  put(103, {70, 7});
  EXPECT_EQ(part.delta_since.record_count, 40U);
  EXPECT_EQ(part.later_since.record_count, 60U);
  EXPECT_EQ(part.later_since.births, 6U);
  row_.part(1).delta = Delta();
  put(104, {80, 8});
  EXPECT_EQ(part.delta_since.record_count, 80U);
}

}  // namespace
}  // namespace engine_race

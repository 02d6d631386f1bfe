#include "engine_race/scan/key_batch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "test/index/refused_memory.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kLast = ~uint64_t{0};

// Keys 10, 20, ... 5000 in one bucket.
class KeyBatchTest : public ::testing::Test {
 protected:
  KeyBatchTest() : store_(1) {
    for (uint64_t i = 1; i <= 500; ++i) store_.Put(i * 10);
    store_.OpenReader();
  }

  Status LoadFrom(uint64_t from, uint64_t last = kLast) {
    return batch_.LoadFrom(*store_.index, from, last, kLatestVersion);
  }
  Status LoadUpTo(uint64_t from, uint64_t first = 0) {
    return batch_.LoadUpTo(*store_.index, first, from, kLatestVersion);
  }
  std::vector<uint64_t> Keys() const {
    std::vector<uint64_t> keys;
    for (uint32_t i = 0; i < batch_.count(); ++i) keys.push_back(DecodeKey(batch_.BytesAt(i)));
    return keys;
  }
  static std::vector<uint64_t> Tens(uint64_t first, uint64_t count) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < count; ++i) keys.push_back(first + i * 10);
    return keys;
  }

  ScanStore store_;
  KeyBatch batch_;
};

TEST_F(KeyBatchTest, AFreshBatchHoldsNothing) {
  EXPECT_TRUE(batch_.empty());
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, kLast}) {
    EXPECT_FALSE(batch_.HoldsNext(key));
    EXPECT_FALSE(batch_.HoldsPrevious(key));
  }
}

TEST_F(KeyBatchTest, LoadsKeysAsBytesInBothDirections) {
  ASSERT_TRUE(LoadFrom(95).ok());
  EXPECT_EQ(Keys(), Tens(100, KeyBatch::kFirstKeys));
  ASSERT_TRUE(LoadUpTo(95).ok());
  EXPECT_EQ(Keys(), Tens(20, KeyBatch::kFirstKeys));
  ASSERT_TRUE(LoadFrom(95, 120).ok());
  EXPECT_EQ(Keys(), Tens(100, 3));
  ASSERT_TRUE(LoadUpTo(95, 80).ok());
  EXPECT_EQ(Keys(), Tens(80, 2));
}

// The stretch reaches from where the load began to its last key, gaps without records included.
TEST_F(KeyBatchTest, KnowsWhichSeeksItCanAnswer) {
  ASSERT_TRUE(LoadFrom(95).ok());  // 100 to 170
  EXPECT_FALSE(batch_.HoldsNext(94));
  EXPECT_TRUE(batch_.HoldsNext(95));
  EXPECT_TRUE(batch_.HoldsNext(170));
  EXPECT_FALSE(batch_.HoldsNext(171));
  EXPECT_FALSE(batch_.HoldsPrevious(99)) << "the one before it is not here";
  EXPECT_TRUE(batch_.HoldsPrevious(100));
  EXPECT_EQ(batch_.NextOf(95), 0u);
  EXPECT_EQ(batch_.NextOf(100), 0u);
  EXPECT_EQ(batch_.NextOf(101), 1u);
  EXPECT_EQ(batch_.PreviousOf(109), 0u);
  EXPECT_EQ(batch_.PreviousOf(110), 1u);

  ASSERT_TRUE(LoadUpTo(95).ok());  // 20 to 90
  EXPECT_TRUE(batch_.HoldsPrevious(95));
  EXPECT_FALSE(batch_.HoldsPrevious(96));
  EXPECT_FALSE(batch_.HoldsNext(19));
  EXPECT_TRUE(batch_.HoldsNext(20));
  EXPECT_FALSE(batch_.HoldsNext(91)) << "the one after it is not here";
  EXPECT_EQ(batch_.PreviousOf(95), batch_.count() - 1);
}

TEST_F(KeyBatchTest, NothingThereLeavesAnEmptyBatchThatHoldsNothing) {
  ASSERT_TRUE(LoadFrom(95).ok());
  ASSERT_TRUE(LoadFrom(5001).ok());
  EXPECT_TRUE(batch_.empty());
  EXPECT_FALSE(batch_.HoldsNext(100));
  ASSERT_TRUE(LoadUpTo(9).ok());
  EXPECT_TRUE(batch_.empty());
}

TEST_F(KeyBatchTest, DoublesWhileAWalkGoesOnItsWayAndBeginsAnewWhenItTurns) {
  ASSERT_TRUE(LoadFrom(0).ok());
  uint64_t next = DecodeKey(batch_.BytesAt(batch_.count() - 1)) + 1;
  for (const uint32_t expected : {16U, 32U, 64U, 128U, 256U}) {
    batch_.Grow(*store_.index, /*backwards=*/false);
    ASSERT_TRUE(LoadFrom(next, 5000 - 1).ok());
    ASSERT_EQ(batch_.room(), expected);
    const uint64_t first = DecodeKey(batch_.BytesAt(0));
    EXPECT_EQ(Keys(), Tens(first, batch_.count()));
    next = DecodeKey(batch_.BytesAt(batch_.count() - 1)) + 1;
  }
  batch_.Grow(*store_.index, /*backwards=*/false);
  EXPECT_EQ(batch_.room(), KeyBatch::kMaxKeys);
  EXPECT_EQ(batch_.memory_bytes(), KeyBatch::kMaxKeys * sizeof(uint64_t));
  batch_.Grow(*store_.index, /*backwards=*/true);
  EXPECT_EQ(batch_.room(), KeyBatch::kFirstKeys);
  batch_.Grow(*store_.index, /*backwards=*/false);
  EXPECT_EQ(batch_.room(), 2 * KeyBatch::kFirstKeys);
  batch_.Restart();
  EXPECT_EQ(batch_.room(), KeyBatch::kFirstKeys);
}

TEST_F(KeyBatchTest, RefusedMemoryLeavesTheBatchAsLargeAsTheObjectHolds) {
  ASSERT_TRUE(LoadFrom(0).ok());
  while (batch_.room() < KeyBatch::kInlineKeys) batch_.Grow(*store_.index, /*backwards=*/false);
  {
    const RefuseMemory refuse(0);
    batch_.Grow(*store_.index, /*backwards=*/false);
    EXPECT_TRUE(refuse.refused());
  }
  EXPECT_EQ(batch_.room(), KeyBatch::kInlineKeys);
  EXPECT_EQ(batch_.memory_bytes(), 0u);
  ASSERT_TRUE(LoadFrom(0).ok());
  EXPECT_EQ(Keys(), Tens(10, KeyBatch::kInlineKeys));
}

TEST_F(KeyBatchTest, PlacesAndBytesAgree) {
  ASSERT_TRUE(LoadFrom(0).ok());
  for (uint32_t i = 0; i < batch_.count(); ++i) EXPECT_EQ(batch_.IndexOf(batch_.BytesAt(i)), i);
}

}  // namespace
}  // namespace engine_race::test

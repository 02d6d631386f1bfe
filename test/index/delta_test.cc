#include "engine_race/index/delta.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace engine_race {
namespace {

class DeltaTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Delta::Create(8, &delta_).ok()); }

  void Put(uint64_t key, uint32_t slot, uint64_t epoch, bool watched) {
    delta_.Put(key, ValueRef(slot, 0, false), epoch, watched);
  }
  // The slot that a view of `epoch` sees; -1 for none.
  int64_t SlotAt(uint64_t key, uint64_t epoch) const {
    const RefWord* const word = delta_.Locate(key, epoch);
    return word == nullptr ? -1 : int64_t{word->Load().slot()};
  }

  Delta delta_;
};

TEST_F(DeltaTest, KeepsKeysInOrder) {
  for (const uint64_t key : {5, 1, 9, 3}) Put(key, static_cast<uint32_t>(key), 1, false);
  ASSERT_EQ(delta_.count(), 4u);
  for (uint32_t i = 1; i < 4; ++i) EXPECT_LT(delta_.keys()[i - 1], delta_.keys()[i]);
  EXPECT_EQ(delta_.Rank(4), 2u);
  EXPECT_EQ(delta_.Locate(4), nullptr);
  EXPECT_EQ(delta_.Locate(9)->Load().slot(), 9u);
}

TEST_F(DeltaTest, ARecordThatNoViewWatchesIsWrittenOver) {
  Put(5, 1, 1, false);
  Put(5, 2, 2, false);
  EXPECT_EQ(delta_.count(), 1u);
  EXPECT_EQ(delta_.superseded_count(), 0u);
  EXPECT_EQ(SlotAt(5, 2), 2);
  EXPECT_EQ(SlotAt(5, 1), -1);
}

TEST_F(DeltaTest, AWatchedRecordStaysBehindTheNewerOne) {
  Put(5, 1, 1, true);
  Put(5, 2, 3, true);
  Put(5, 3, 3, true);  // of the same stamp: no view can tell them apart
  EXPECT_EQ(delta_.count(), 2u);
  EXPECT_EQ(delta_.superseded_count(), 1u);
  EXPECT_EQ(SlotAt(5, 0), -1);
  EXPECT_EQ(SlotAt(5, 2), 1);
  EXPECT_EQ(SlotAt(5, 3), 3);
  EXPECT_EQ(delta_.Locate(5)->Load().slot(), 3u);
}

TEST_F(DeltaTest, WhatNoLiveViewShowsIsDropped) {
  for (uint32_t epoch = 1; epoch <= 4; ++epoch) Put(5, epoch, epoch, true);
  Put(7, 7, 4, true);
  LiveEpochs live;
  live.Add(2);
  live.Sort();
  delta_.DropUnseen(live);
  EXPECT_EQ(delta_.count(), 3u);
  EXPECT_EQ(delta_.superseded_count(), 1u);
  EXPECT_EQ(SlotAt(5, 2), 2);
  EXPECT_EQ(SlotAt(5, 4), 4);
  EXPECT_EQ(SlotAt(7, 4), 7);
}

TEST_F(DeltaTest, ACopyAndAMovedOneHoldTheSame) {
  Put(5, 1, 1, true);
  Put(5, 2, 2, true);
  Delta larger;
  ASSERT_TRUE(Delta::Create(16, &larger).ok());
  larger.CopyFrom(delta_);
  const Delta moved = std::move(larger);
  EXPECT_EQ(moved.count(), 2u);
  EXPECT_EQ(moved.superseded_count(), 1u);
  EXPECT_EQ(moved.capacity(), 16u);
  EXPECT_EQ(moved.Locate(5, 1)->Load().slot(), 1u);
  EXPECT_EQ(larger.count(), 0u);  // NOLINT(bugprone-use-after-move): it says that it is empty
  EXPECT_EQ(larger.capacity(), 0u);
}

}  // namespace
}  // namespace engine_race

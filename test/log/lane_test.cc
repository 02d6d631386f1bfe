#include <gtest/gtest.h>

#include "engine_race/log/bucket.h"

namespace engine_race {
namespace {

constexpr uint32_t kGroup = 4;

TEST(LaneTest, TwoGroupsFitAndTheThirdWaits) {
  Lane lane;
  lane.Init(0, kGroup);
  for (uint64_t slot = 0; slot < 2 * kGroup; ++slot) EXPECT_TRUE(lane.HasRoomFor(slot)) << slot;
  EXPECT_FALSE(lane.HasRoomFor(2 * kGroup));
  lane.BeginWrite(0);
  EXPECT_FALSE(lane.HasRoomFor(2 * kGroup));
  EXPECT_TRUE(lane.EndWrite(0, true));
  EXPECT_EQ(lane.flushed(), kGroup);
  EXPECT_TRUE(lane.HasRoomFor(2 * kGroup));
}

TEST(LaneTest, FlushedCountsAPrefixOnly) {
  Lane lane;
  lane.Init(0, kGroup);
  lane.BeginWrite(0);
  lane.BeginWrite(1);
  EXPECT_FALSE(lane.EndWrite(1, true));
  EXPECT_EQ(lane.flushed(), 0u);
  EXPECT_FALSE(lane.HasRoomFor(2 * kGroup));
  EXPECT_TRUE(lane.EndWrite(0, true));
  EXPECT_EQ(lane.flushed(), 2 * kGroup);
}

TEST(LaneTest, AFailedGroupIsFoundAgain) {
  Lane lane;
  lane.Init(0, kGroup);
  uint64_t group = 99;
  EXPECT_FALSE(lane.FindIdleFullGroup(kGroup - 1, &group));
  ASSERT_TRUE(lane.FindIdleFullGroup(kGroup, &group));
  EXPECT_EQ(group, 0u);
  lane.BeginWrite(0);
  EXPECT_FALSE(lane.FindIdleFullGroup(kGroup, &group));
  EXPECT_FALSE(lane.EndWrite(0, false));
  ASSERT_TRUE(lane.FindIdleFullGroup(kGroup, &group));
  EXPECT_EQ(group, 0u);
  EXPECT_EQ(lane.flushed(), 0u);
}

TEST(LaneTest, APinnedHalfIsNotUsedAgain) {
  Lane lane;
  lane.Init(0, kGroup);
  lane.Pin(1);
  lane.Pin(2);
  lane.BeginWrite(0);
  ASSERT_TRUE(lane.EndWrite(0, true));
  EXPECT_FALSE(lane.HasRoomFor(2 * kGroup));
  EXPECT_FALSE(lane.Unpin(1));
  EXPECT_FALSE(lane.HasRoomFor(2 * kGroup));
  EXPECT_TRUE(lane.Unpin(2));
  EXPECT_TRUE(lane.HasRoomFor(2 * kGroup));
}

TEST(LaneTest, GoesOnFromWhatWasFlushedBefore) {
  Lane lane;
  lane.Init(3 * kGroup, kGroup);
  uint64_t group = 0;
  EXPECT_TRUE(lane.HasRoomFor(4 * kGroup));
  EXPECT_FALSE(lane.HasRoomFor(5 * kGroup));
  ASSERT_TRUE(lane.FindIdleFullGroup(4 * kGroup + 1, &group));
  EXPECT_EQ(group, 3u);
}

}  // namespace
}  // namespace engine_race

#include "engine_race/log/lane.h"

#include <gtest/gtest.h>

namespace engine_race {
namespace {

constexpr uint32_t kGroup = 4;

class LaneTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(lane_.Init(kGroup, 3, 0, 0, 0)); }

  // Begins the group numbered `group` in the place that the lane offers.
  uint32_t Begin(uint64_t group) {
    const uint32_t place = lane_.FreePlace();
    lane_.TakePlace(group * kGroup, place);
    return place;
  }

  Lane lane_;
};

TEST_F(LaneTest, AGroupKeepsItsPlaceAndTheLowestFreeOneGoesFirst) {
  EXPECT_EQ(Begin(0), 0u);
  EXPECT_EQ(Begin(1), 1u);
  EXPECT_EQ(lane_.PlaceOf(3), 0u);
  EXPECT_EQ(lane_.PlaceOf(4), 1u);
  lane_.BeginWrite(0);
  ASSERT_TRUE(lane_.EndWrite(0, true));
  EXPECT_EQ(Begin(2), 0u);
  EXPECT_EQ(Begin(3), 2u);
  EXPECT_EQ(lane_.PlaceOf(2 * kGroup), 0u);
  EXPECT_EQ(lane_.PlaceOf(kGroup), 1u);
}

TEST_F(LaneTest, RoomEndsWithThePlaces) {
  for (uint64_t group = 0; group < 3; ++group) {
    EXPECT_TRUE(lane_.HasRoomFor(group * kGroup));
    Begin(group);
  }
  EXPECT_TRUE(lane_.HasRoomFor(3 * kGroup - 1));
  EXPECT_FALSE(lane_.HasRoomFor(3 * kGroup));
  lane_.BeginWrite(0);
  EXPECT_FALSE(lane_.HasRoomFor(3 * kGroup));
  EXPECT_TRUE(lane_.EndWrite(0, true));
  EXPECT_EQ(lane_.watermark(), kGroup);
  EXPECT_TRUE(lane_.HasRoomFor(3 * kGroup));
}

TEST_F(LaneTest, TheWatermarkCountsAPrefixOnly) {
  for (uint64_t group = 0; group < 3; ++group) Begin(group);
  for (uint64_t group = 0; group < 3; ++group) lane_.BeginWrite(group);
  EXPECT_FALSE(lane_.EndWrite(1, true));
  EXPECT_FALSE(lane_.EndWrite(2, true));
  EXPECT_EQ(lane_.watermark(), 0u);
  EXPECT_FALSE(lane_.HasRoomFor(3 * kGroup));
  EXPECT_TRUE(lane_.EndWrite(0, true));
  EXPECT_EQ(lane_.watermark(), 3 * kGroup);
}

TEST_F(LaneTest, AFailedGroupIsFoundAgain) {
  Begin(0);
  uint64_t group = 99;
  EXPECT_FALSE(lane_.FindIdleFullGroup(kGroup - 1, &group));
  ASSERT_TRUE(lane_.FindIdleFullGroup(kGroup, &group));
  EXPECT_EQ(group, 0u);
  lane_.BeginWrite(0);
  EXPECT_FALSE(lane_.FindIdleFullGroup(kGroup, &group));
  EXPECT_FALSE(lane_.EndWrite(0, false));
  ASSERT_TRUE(lane_.FindIdleFullGroup(kGroup, &group));
  EXPECT_EQ(group, 0u);
  EXPECT_EQ(lane_.watermark(), 0u);
}

TEST_F(LaneTest, APinnedPlaceIsNotGivenAway) {
  for (uint64_t group = 0; group < 3; ++group) Begin(group);
  lane_.Pin(0);
  lane_.Pin(0);
  lane_.BeginWrite(0);
  ASSERT_TRUE(lane_.EndWrite(0, true));
  EXPECT_FALSE(lane_.HasRoomFor(3 * kGroup));
  lane_.Unpin(0);
  EXPECT_FALSE(lane_.HasRoomFor(3 * kGroup));
  lane_.Unpin(0);
  EXPECT_TRUE(lane_.HasRoomFor(3 * kGroup));
}

TEST_F(LaneTest, IsIdleUnlessAGroupIsWrittenOrAPlacePinned) {
  EXPECT_TRUE(lane_.IsIdle());
  Begin(0);
  Begin(1);
  EXPECT_TRUE(lane_.IsIdle());
  lane_.BeginWrite(0);
  EXPECT_FALSE(lane_.IsIdle());
  ASSERT_TRUE(lane_.EndWrite(0, /*ok=*/true));
  EXPECT_TRUE(lane_.IsIdle());
  lane_.Pin(0);
  EXPECT_FALSE(lane_.IsIdle());
  lane_.Unpin(0);
  EXPECT_TRUE(lane_.IsIdle());
}

TEST_F(LaneTest, GoesOnFromWhatAnotherOpeningLeft) {
  // Groups 3 (full, in place 2) and 4 (partial, in place 1) are staged.
  const uint32_t word = (2u << (3 * format::kPlaceBits)) | (1u << (4 * format::kPlaceBits));
  Lane lane;
  ASSERT_TRUE(lane.Init(kGroup, 3, 3 * kGroup, 4 * kGroup + 1, word));
  EXPECT_EQ(lane.PlaceOf(3 * kGroup), 2u);
  EXPECT_EQ(lane.PlaceOf(4 * kGroup), 1u);
  EXPECT_EQ(lane.FreePlace(), 0u);
  uint64_t group = 0;
  ASSERT_TRUE(lane.FindIdleFullGroup(4 * kGroup + 1, &group));
  EXPECT_EQ(group, 3u);
}

TEST_F(LaneTest, ImpossiblePlacesAreRefused) {
  Lane twice;
  EXPECT_FALSE(twice.Init(kGroup, 3, 0, kGroup + 1, 0));
  Lane absent;
  EXPECT_FALSE(absent.Init(kGroup, 3, 0, 1, 3));
  Lane stale;
  EXPECT_FALSE(stale.Init(kGroup, 3, 0, 1, 0xf0));
}

}  // namespace
}  // namespace engine_race

#include "engine_race/base/swip.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace engine_race {
namespace {

constexpr uint64_t kOwners = ~(Swip::kNumberMask | Swip::kTagMask);

TEST(SwipTest, EveryBitIsThePlacesTheOwnersOrATag) {
  EXPECT_EQ(Swip::kNumberMask & Swip::kTagMask, 0U);
  EXPECT_EQ(Swip::kHotBit & Swip::kCoolingBit, 0U);
  EXPECT_EQ(Swip::kHotBit | Swip::kCoolingBit, Swip::kTagMask);
  EXPECT_EQ(Swip::kNumberMask, (uint64_t{1} << 31) - 1);
}

TEST(SwipTest, ADefaultOneIsPlaceZero) {
  const Swip swip;
  EXPECT_EQ(swip.word(), 0U);
  EXPECT_EQ(swip.number(), 0U);
  EXPECT_FALSE(swip.hot());
  EXPECT_FALSE(swip.cooling());
}

TEST(SwipTest, MovingKeepsTheOwnersBits) {
  for (const uint64_t owners : {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 61, kOwners}) {
    for (const uint32_t place : {0U, 1U, 0x2aaaaaaaU, 0x7fffffffU}) {
      const Swip cold(owners | place);
      for (const uint32_t frame : {0U, 1U, 0x15555555U, 0x7fffffffU}) {
        const Swip hot = cold.In(frame);
        EXPECT_TRUE(hot.hot());
        EXPECT_FALSE(hot.cooling());
        EXPECT_EQ(hot.number(), frame);
        EXPECT_EQ(hot.word() & kOwners, owners);
        EXPECT_EQ(hot.At(place), cold);
        EXPECT_EQ(hot.Cooling().At(place), cold) << "the mark goes with the frame";
      }
    }
  }
}

TEST(SwipTest, TheMarkComesAndGoesAlone) {
  const Swip hot = Swip(kOwners | 7).In(9);
  const Swip marked = hot.Cooling();
  EXPECT_TRUE(marked.hot());
  EXPECT_TRUE(marked.cooling());
  EXPECT_EQ(marked.number(), 9U);
  EXPECT_FALSE(marked == hot);
  EXPECT_EQ(marked.Cooling(), marked);
  EXPECT_EQ(marked.Heated(), hot);
  EXPECT_EQ(hot.Heated(), hot);
  EXPECT_EQ(marked.In(9), hot) << "another frame begins without the mark";
}

}  // namespace
}  // namespace engine_race

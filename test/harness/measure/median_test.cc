#include "harness/measure/median.h"

#include <gtest/gtest.h>

namespace engine_race::harness {
namespace {

TEST(MedianTest, LiesInTheMiddle) {
  EXPECT_EQ(MedianOf({}), 0);
  EXPECT_EQ(MedianOf({3}), 3);
  EXPECT_EQ(MedianOf({9, 1, 5}), 5);
  EXPECT_EQ(MedianOf({9, 1, 5, 6}), 5.5);
}

TEST(MedianTest, QuartilesLieBetweenNeighbours) {
  EXPECT_EQ(QuantileOf({4, 3, 2, 1, 0}, 0.25), 1);
  EXPECT_EQ(QuantileOf({4, 3, 2, 1, 0}, 0.75), 3);
  EXPECT_EQ(QuantileOf({1, 2}, 0.25), 1.25);
  EXPECT_EQ(QuantileOf({1, 2}, 1), 2);
}

}  // namespace
}  // namespace engine_race::harness

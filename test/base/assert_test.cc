#include "engine_race/base/assert.h"

#include <gtest/gtest.h>

namespace engine_race {
namespace {

TEST(AssertTest, WhatHoldsGoesOn) {
  ENGINE_RACE_ASSERT(2 + 2 == 4);
  SUCCEED();
}

TEST(AssertTest, WhatDoesNotHoldTrapsInCheckedBuildsAlone) {
  bool is_evaluated = false;
  const auto fails = [&is_evaluated] {
    is_evaluated = true;
    return false;
  };
  if (kIsChecked) {
    EXPECT_DEATH(ENGINE_RACE_ASSERT(fails()), "");
  } else {
    ENGINE_RACE_ASSERT(fails());
    EXPECT_FALSE(is_evaluated);
  }
}

// An assertion is one expression, also where a branch has no braces.
TEST(AssertTest, StandsWhereAStatementStands) {
  int value = 1;
  if (value == 2)
    ENGINE_RACE_ASSERT(value == 3);
  else
    value = 4;
  EXPECT_EQ(value, 4);
}

}  // namespace
}  // namespace engine_race

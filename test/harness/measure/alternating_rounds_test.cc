#include "harness/measure/alternating_rounds.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace harness {
namespace {

using engine_race::Status;

class AlternatingRoundsTest : public ::testing::Test {
 protected:
  Turn Says(char letter) {
    return [this, letter] {
      said_ += letter;
      return letter == end_at_ ? Status::IOError("a bad turn") : Status::Ok();
    };
  }

  std::string said_;
  char end_at_ = 0;
};

TEST_F(AlternatingRoundsTest, EveryOtherRoundGoesTheOtherWay) {
  std::vector<uint32_t> whole;
  EXPECT_TRUE(AlternatingRounds(3, {Says('a'), Says('b'), Says('c')}, [&](uint32_t round) {
                whole.push_back(round);
              }).ok());
  EXPECT_EQ(said_, "abccbaabc");
  EXPECT_EQ(whole, (std::vector<uint32_t>{0, 1, 2}));
}

TEST_F(AlternatingRoundsTest, AFailedTurnEndsTheRoundsAndItsRoundIsNotWhole) {
  end_at_ = 'b';
  bool whole = false;
  const Status status =
      AlternatingRounds(2, {Says('a'), Says('b'), Says('c')}, [&](uint32_t) { whole = true; });
  EXPECT_EQ(status.message(), "a bad turn");
  EXPECT_EQ(said_, "ab");
  EXPECT_FALSE(whole);
}

TEST_F(AlternatingRoundsTest, TwoRoundsInARowGoThereAndBack) {
  for (const uint32_t round : {4, 5}) {
    EXPECT_TRUE(AlternatingRound(round, {Says('a'), Says('b')}).ok());
  }
  EXPECT_EQ(said_, "abba");
}

}  // namespace
}  // namespace harness

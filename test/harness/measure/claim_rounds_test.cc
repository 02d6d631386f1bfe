#include "harness/measure/claim_rounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "harness/measure/median.h"

namespace engine_race::harness {
namespace {

constexpr ClaimTarget kTargets[] = {{"speed", ">= 2"}, {"cost", ""}, {"missing", "= 1"}};

TEST(ClaimRoundsTest, ClaimsAreTheTargetsThatWereMeasured) {
  ClaimRounds rounds(kTargets);
  for (const double value : {1.0, 5.0, 3.0}) rounds.Note("speed", value);
  rounds.Note("a part", 7);
  rounds.NoteRatio("cost", 1, 4);
  rounds.NoteRatio("cost", 0, 4);
  EXPECT_EQ(rounds.Claims(), (std::map<std::string, double>{{"speed", 3}, {"cost", 0.25}}));
  rounds.Settle("speed", 4);
  EXPECT_EQ(rounds.Claims().at("speed"), 4);
  EXPECT_EQ(rounds.Median("speed"), 3);
}

TEST(ClaimRoundsTest, JsonHasRoundsAndQuartiles) {
  ClaimRounds rounds(kTargets);
  for (const double value : {1.0, 2.0, 3.0, 4.0, 5.0}) rounds.Note("a part", value);
  const nlohmann::json json = rounds.ToJson();
  EXPECT_TRUE(json["claims"].empty());
  EXPECT_EQ(json["rounds"]["a part"].size(), 5U);
  EXPECT_EQ(json["figures"]["a part"]["lower_quartile"], 2);
  EXPECT_EQ(json["figures"]["a part"]["median"], 3);
  EXPECT_EQ(json["figures"]["a part"]["upper_quartile"], 4);
}

TEST(ClaimRoundsTest, MoreRoundsMakeTheErrorOfTheMedianSmaller) {
  ClaimRounds rounds(kTargets);
  rounds.Note("speed", 1);
  rounds.Note("speed", 2);
  EXPECT_TRUE(std::isinf(rounds.MedianError("speed")));
  EXPECT_TRUE(std::isinf(rounds.MedianError("missing")));
  rounds.Note("speed", 3);
  const double of_three = rounds.MedianError("speed");
  EXPECT_NEAR(of_three, 1.2533 / 1.349 / std::sqrt(3), 1e-9);
  for (int i = 0; i < 30; ++i) rounds.Note("speed", 1 + i % 3);
  EXPECT_LT(rounds.MedianError("speed"), of_three);
}

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
  ClaimRounds rounds({});
  EXPECT_TRUE(rounds.Run({3}, {Says('a'), Says('b'), Says('c')}).ok());
  EXPECT_EQ(said_, "abccbaabc");
}

TEST_F(AlternatingRoundsTest, AFailedTurnEndsTheRounds) {
  end_at_ = 'b';
  ClaimRounds rounds({});
  EXPECT_EQ(rounds.Run({2}, {Says('a'), Says('b'), Says('c')}).message(), "a bad turn");
  EXPECT_EQ(said_, "ab");
}

TEST_F(AlternatingRoundsTest, ARoundThereAndBackRunsEachSideTwice) {
  ClaimRounds rounds({});
  EXPECT_TRUE(rounds.Run({.count = 1, .there_and_back = true}, {Says('a'), Says('b')}).ok());
  EXPECT_EQ(said_, "abba");
}

class ClaimRunTest : public ::testing::Test {
 protected:
  // A side whose figure grows by `step` each time.
  Turn Side(const std::string& figure, double step) {
    return [this, figure, step] {
      rounds_.Note(figure, ++counts_[figure] * step);
      return counts_[figure] == end_at_ ? Status::IOError("a bad turn") : Status::Ok();
    };
  }
  Status Run(const RoundPlan& plan, const std::vector<RoundRatio>& ratios = {}) {
    return rounds_.Run(plan, {Side("a", 4), Side("b", 2)}, ratios);
  }

  const ClaimTarget targets_[2] = {{"ratio", "", "", "a", "b"}, {"other", "", "", "a", "c"}};
  ClaimRounds rounds_{targets_};
  std::map<std::string, int> counts_;
  int end_at_ = 0;
};

TEST_F(ClaimRunTest, TheRatiosOfARoundAreOfItsOwnFigures) {
  rounds_.Note("a", 1000);
  ASSERT_TRUE(
      Run({2}, {{"growth", "b", "a", RatioForm::kGrowth}, {"loss", "b", "a", RatioForm::kLoss}})
          .ok());
  EXPECT_EQ(rounds_.rounds("ratio"), (std::vector<double>{2, 2}));
  EXPECT_EQ(rounds_.rounds("growth"), (std::vector<double>{-0.5, -0.5}));
  EXPECT_EQ(rounds_.rounds("loss"), (std::vector<double>{0.5, 0.5}));
  EXPECT_FALSE(rounds_.has("other"));
}

TEST_F(ClaimRunTest, TheRoundThatWarmsUpIsNotCounted) {
  ASSERT_TRUE(Run({.count = 1, .warms_up = true}).ok());
  EXPECT_EQ(rounds_.rounds("a"), std::vector<double>{8});
  EXPECT_EQ(rounds_.rounds("ratio"), std::vector<double>{2});
}

TEST_F(ClaimRunTest, ThereAndBackARatioIsOfBothRuns) {
  ASSERT_TRUE(Run({.count = 1, .there_and_back = true}).ok());
  EXPECT_EQ(rounds_.rounds("a"), (std::vector<double>{4, 8}));
  // The mean of 4 and 8 over that of 2 and 4.
  EXPECT_EQ(rounds_.rounds("ratio"), std::vector<double>{2});
}

TEST_F(ClaimRunTest, RoughMediansGetMoreRounds) {
  // Each of its rounds gives the same, so the error of three is 0.
  ASSERT_TRUE(Run({.count = 1, .max_count = 9}, {{"even", "a", "b", RatioForm::kOver, 0.1}}).ok());
  EXPECT_EQ(rounds_.rounds("even").size(), 3u);
  counts_.clear();
  const auto constant = [this] {
    rounds_.Note("c", 1);
    return Status::Ok();
  };
  ASSERT_TRUE(rounds_
                  .Run({.count = 1, .max_count = 9}, {Side("a", 4), constant},
                       {{"scattered", "a", "c", RatioForm::kOver, 0.1}})
                  .ok());
  EXPECT_EQ(rounds_.rounds("scattered").size(), 9u);
}

TEST_F(ClaimRunTest, ARoundThatFailsLeavesNothing) {
  end_at_ = 2;
  EXPECT_EQ(Run({5}).message(), "a bad turn");
  EXPECT_EQ(rounds_.rounds("a"), std::vector<double>{4});
  EXPECT_EQ(rounds_.rounds("b"), std::vector<double>{2});
}

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

#include "harness/measure/claim_rounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

namespace harness {
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

}  // namespace
}  // namespace harness

#include "harness/claim_rounds.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace harness

#include "harness/claims/guest_shares.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "harness/claims/benches.h"
#include "test/test_util.h"

namespace harness {
namespace {

nlohmann::json RaceOf(const char* text, double code_local, double anonymous_local, double mean) {
  return {{"text", text},
          {"groups", 2},
          {"code_local", code_local},
          {"anonymous_local", anonymous_local},
          {"code_local_mean", mean}};
}

TEST(GuestSharesTest, TakesTheLeastOfAllGuestsAndNamesThoseThatFailed) {
  const nlohmann::json guests = {{"guests",
                                  {{{"nodes", 2},
                                    {"ok", true},
                                    {"races",
                                     {{"shared", RaceOf("shared", 0.1, 1, 0.25)},
                                      {"copies", RaceOf("copies", 0.875, 0.995, 0.9)},
                                      {"remap", RaceOf("remap", 1, 1, 1)}}}},
                                   {{"nodes", 4},
                                    {"ok", true},
                                    {"races",
                                     {{"shared_groups", RaceOf("shared", 0, 1, 0.75)},
                                      {"copies_groups", RaceOf("copies", 1, 1, 1)},
                                      {"remap", RaceOf("remap", 0.5, 1, 1)}}}},
                                   {{"nodes", 8},
                                    {"ok", false},
                                    {"races", {{"copies", RaceOf("copies", 0.25, 0.5, 0.25)}}}}}}};
  const auto shares = SharesOfGuests(guests);
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ(shares->node_count, 4u);
  EXPECT_DOUBLE_EQ(shares->text_shared, 0.5);
  EXPECT_DOUBLE_EQ(shares->text_copies, 0.25);
  EXPECT_DOUBLE_EQ(shares->text_remap, 0.5);
  EXPECT_DOUBLE_EQ(shares->anonymous, 0.5);
  EXPECT_EQ(shares->failed_guests, std::vector<uint32_t>{8});
}

// A share that is too small must come out as a claim that is missed.
TEST(GuestSharesTest, AGuestWithTooSmallSharesCounts) {
  const auto shares = SharesOfGuests({{"guests",
                                       {{{"nodes", 8},
                                         {"ok", true},
                                         {"races",
                                          {{"shared", RaceOf("shared", 0, 1, 0)},
                                           {"copies", RaceOf("copies", 0.5, 0.75, 0.5)},
                                           {"remap", RaceOf("remap", 1, 1, 1)}}}}}}});
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ(shares->node_count, 8u);
  EXPECT_DOUBLE_EQ(shares->text_copies, 0.5);
  EXPECT_DOUBLE_EQ(shares->anonymous, 0.75);
  EXPECT_TRUE(shares->failed_guests.empty());
}

TEST(GuestSharesTest, NoGuestIsNoShare) {
  EXPECT_FALSE(SharesOfGuests(nlohmann::json()).has_value());
  EXPECT_FALSE(SharesOfGuests({{"guests", nlohmann::json::array()}}).has_value());
  EXPECT_FALSE(SharesOfGuests({{"guests", {{{"nodes", 8}, {"ok", false}}}}}).has_value());
  EXPECT_FALSE(SharesOfGuests({{"guests", {{{"nodes", 8}, {"ok", true}}}}}).has_value());
  const nlohmann::json races = {{"copies", RaceOf("copies", 1, 1, 1)}};
  EXPECT_FALSE(
      SharesOfGuests({{"guests", {{{"nodes", 8}, {"ok", true}, {"races", races}}}}}).has_value());
}

TEST(NumaBenchTest, AFileThatIsMissingIsAnErrorAndNull) {
  const engine_race::test::TempDir dir(engine_race::test::FastParent());
  const std::unique_ptr<Bench> bench = MakeNumaBench();
  for (const Setting& setting : bench->Settings()) {
    if (setting.flag == "--guests") *std::get<std::string*>(setting.value) = "/none/of/this";
  }
  ASSERT_EQ(bench->Refusal({.parent = dir.path(), .tmpfs = dir.path(), .only = {"guests"}}), "");
  EXPECT_FALSE(bench->Measure());
  EXPECT_TRUE(bench->errors().front().starts_with("guests: ")) << bench->errors().front();
  EXPECT_TRUE(bench->ToJson().at("guests").is_null());
  EXPECT_TRUE(nlohmann::json::accept(bench->ToJson().dump()));
}

}  // namespace
}  // namespace harness

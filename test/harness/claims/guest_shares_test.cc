#include "harness/claims/benches.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using Shares = std::map<std::string, double>;

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
  std::vector<std::string> errors;
  EXPECT_EQ(SharesOfGuests(guests, &errors), (Shares{{"nodes_tested", 4},
                                                     {"text_local_shared", 0.5},
                                                     {"text_local_copies", 0.25},
                                                     {"text_local_remap", 0.5},
                                                     {"anon_local", 0.5}}));
  EXPECT_EQ(errors, std::vector<std::string>{"the guest with 8 nodes failed"});
}

TEST(GuestSharesTest, NoGuestIsNoShare) {
  std::vector<std::string> errors;
  const nlohmann::json copies = {{"copies", RaceOf("copies", 1, 1, 1)}};
  for (const nlohmann::json& guests :
       {nlohmann::json(), nlohmann::json::array(), nlohmann::json{{{"nodes", 8}, {"ok", false}}},
        nlohmann::json{{{"nodes", 8}, {"ok", true}}},
        nlohmann::json{{{"nodes", 8}, {"ok", true}, {"races", copies}}}}) {
    EXPECT_TRUE(SharesOfGuests({{"guests", guests}}, &errors).empty()) << guests;
  }
}

TEST(NumaBenchTest, AFileThatIsMissingIsAnErrorAndNull) {
  const test::TempDir dir(test::FastParent());
  const std::unique_ptr<Bench> bench = MakeNumaBench();
  for (const Setting& setting : bench->settings()) {
    if (setting.flag == "--guests") *std::get<std::string*>(setting.value) = "/none/of/this";
  }
  ASSERT_EQ(bench->Refusal({.parent = dir.path(), .tmpfs = dir.path(), .only = {"guests"}}), "");
  EXPECT_FALSE(bench->Measure());
  EXPECT_TRUE(bench->errors().front().starts_with("guests: ")) << bench->errors().front();
  EXPECT_TRUE(bench->ToJson().at("guests").is_null());
  EXPECT_TRUE(nlohmann::json::accept(bench->ToJson().dump()));
}

}  // namespace
}  // namespace engine_race::harness

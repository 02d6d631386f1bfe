#include "harness/claims/bench_numa.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace harness {
namespace {

nlohmann::json RaceOf(const char* text, double code_local, double anonymous_local, double mean) {
  return {{"text", text},
          {"groups", 2},
          {"code_local", code_local},
          {"anonymous_local", anonymous_local},
          {"code_local_mean", mean}};
}

TEST(GuestSharesTest, TakesTheLeastOfTheGuestsWithoutAFault) {
  const nlohmann::json guests = {
      {"guests",
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
        {{"nodes", 8}, {"ok", false}, {"races", {{"copies", RaceOf("copies", 0, 0, 0)}}}}}}};
  const auto shares = SharesOfGuests(guests);
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ(shares->node_count, 4u);
  EXPECT_DOUBLE_EQ(shares->text_shared, 0.5);
  EXPECT_DOUBLE_EQ(shares->text_copies, 0.875);
  EXPECT_DOUBLE_EQ(shares->text_remap, 0.5);
  EXPECT_DOUBLE_EQ(shares->anonymous, 0.995);
}

TEST(GuestSharesTest, NoGuestIsNoShare) {
  EXPECT_FALSE(SharesOfGuests(nlohmann::json()).has_value());
  EXPECT_FALSE(SharesOfGuests({{"guests", nlohmann::json::array()}}).has_value());
  EXPECT_FALSE(SharesOfGuests({{"guests", {{{"nodes", 8}, {"ok", false}}}}}).has_value());
  EXPECT_FALSE(SharesOfGuests({{"guests", {{{"nodes", 8}, {"ok", true}}}}}).has_value());
}

}  // namespace
}  // namespace harness

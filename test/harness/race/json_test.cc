#include "harness/race/runner.h"

#include <gtest/gtest.h>

namespace engine_race::harness {
namespace {

TEST(RaceJsonTest, APhaseLearnsWhetherTheIndexIsWritten) {
  for (const bool writes_index : {false, true}) {
    RaceConfig config;
    config.dir = "/store";
    config.writes_index = writes_index;
    const auto order = OrderOf({Phase::kRange, config}).get<PhaseOrder>();
    EXPECT_EQ(order.phase, Phase::kRange);
    EXPECT_EQ(order.config.dir, "/store");
    EXPECT_EQ(order.config.writes_index, writes_index);
  }
}

}  // namespace
}  // namespace engine_race::harness

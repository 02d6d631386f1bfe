#include "harness/claims/board_cost.h"

#include <gtest/gtest.h>

namespace engine_race::harness {
namespace {

// A load without a victim fails. A round would not end if scans never lacked a chunk.
TEST(BoardCostTest, EachLoadFindsAVictim) {
  for (const uint32_t scan_count : {1u, 7u, 32u}) {
    ClaimRounds rounds{{}};
    const Status status = MeasureBoardCost(
        {.chunk_count = 64 * 32, .scan_count = scan_count, .load_count = 3000, .round_count = 1},
        &rounds);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_GT(rounds.Median(kBoardCost), 0);
  }
}

}  // namespace
}  // namespace engine_race::harness

#include "harness/claims/scan_seeks.h"

#include <gtest/gtest.h>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

class ScanSeeksTest : public ::testing::Test {
 protected:
  ScanShape Shape(uint64_t key_count) const {
    return {.dir = dir_.path(), .key_count = key_count, .round_count = 1, .seconds = 0.01};
  }

  const test::TempDir dir_{test::FastParent()};
  ClaimRounds rounds_{{}};
};

TEST_F(ScanSeeksTest, SeeksOverFewKeysAreMeasuredInBothStores) {
  const Status status = CompareSparseSeeks(Shape(10), &rounds_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(rounds_.Median(kSparseSeek), 0);
  EXPECT_GT(rounds_.Median(kSparseSeekWide), 0);
}

TEST_F(ScanSeeksTest, SeeksFindTheFirstKeyThatWasNotDeleted) {
  const Status status = SeekAfterDeletes(Shape(20000), &rounds_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(rounds_.Median(kSeekAfterDeletes), 0);
}

TEST_F(ScanSeeksTest, WalksOverAPagedIndexFindAllKeys) {
  const Status status = WalkPagedKeys(Shape(50000), &rounds_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(rounds_.Median("walk over a paged index, Mkeys/s"), 0);
  EXPECT_GT(rounds_.Median("walk over a paged index backwards, Mkeys/s"), 0);
}

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

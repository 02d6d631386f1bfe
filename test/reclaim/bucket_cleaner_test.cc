// BucketCleaner: which cells of a bucket it gives up, and what it leaves alone.
#include "engine_race/reclaim/bucket_cleaner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/log/row_file.h"
#include "test/log/entry_test_util.h"
#include "test/log/log_test_util.h"
#include "test/reclaim/cleaner_fixture.h"

namespace engine_race::test {
namespace {

TEST_F(BucketCleanerTest, WhereAllIsLiveNothingIsDone) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow + 17));
  for (const uint32_t dead_percent : {30u, 0u}) {
    const BucketUse use = Clean(dead_percent);
    EXPECT_EQ(use.record_count, count_);
    EXPECT_EQ(use.live_count, count_);
    EXPECT_EQ(use.held_count, count_);
    EXPECT_TRUE(GivenUp().empty());
    EXPECT_FALSE(log_->HasRows(0));
  }
  EXPECT_EQ(log_->mover().moved_bytes(), 0u);
}

TEST_F(BucketCleanerTest, AnEmptyBucketHasNothing) {
  const BucketUse use = Clean(0);
  EXPECT_EQ(use.record_count, 0u);
  EXPECT_EQ(use.held_count, 0u);
  EXPECT_FALSE(log_->HasRows(0));
}

// They cost nothing, however few of all records they are.
TEST_F(BucketCleanerTest, CellsOfDeadRecordsAloneAreFreedAsTheyAre) {
  ASSERT_NO_FATAL_FAILURE(PutNew(16 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillIn(2, 3, kCell));
  ASSERT_NO_FATAL_FAILURE(KillIn(5, 0, kCell));
  ASSERT_NO_FATAL_FAILURE(KillIn(7, 7, kCell - 1));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  const BucketUse use = Clean(30);
  EXPECT_EQ(use.live_count, held_.size());
  EXPECT_EQ(use.held_count, count_ - 2 * kCell);
  EXPECT_EQ(GivenUp(), (std::set<std::pair<uint32_t, uint32_t>>{{2, 3}, {5, 0}}));
  EXPECT_EQ(log_->mover().moved_bytes(), 0u);
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Of rows of about one age, those with the fewest live records go, and no more than are needed.
TEST_F(BucketCleanerTest, TheSparsestRowsGoFirst) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  // By row: how many records of each cell are dead.
  const std::vector<uint64_t> dead = {4, 28, 0, 20, 8, 30, 12};
  for (uint32_t row = 0; row < dead.size(); ++row) {
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      ASSERT_NO_FATAL_FAILURE(KillIn(row, cell, dead[row]));
    }
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  const BucketUse use = Clean(20);
  const auto given_up = GivenUp();
  ASSERT_FALSE(given_up.empty());
  uint64_t least_dead_given_up = kCell;
  uint64_t most_dead_kept = 0;
  for (uint32_t row = 0; row < dead.size(); ++row) {
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      if (given_up.contains({row, cell})) {
        least_dead_given_up = std::min(least_dead_given_up, dead[row]);
      } else {
        most_dead_kept = std::max(most_dead_kept, dead[row]);
      }
    }
  }
  EXPECT_GE(least_dead_given_up, most_dead_kept);
  EXPECT_GT(most_dead_kept, 0u) << "more than were needed";
  EXPECT_LE(use.held_count, use.live_count * 100 / 80 + kCell);
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// The cells of a row that most of the live records are in stay where they are.
TEST_F(BucketCleanerTest, OfARowTheSparsestCellsGo) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  // By cell: how many records of it are dead.
  const std::vector<uint64_t> dead = {4, 28, 0, 20, 8, 30, 12, 24};
  for (uint32_t row = 0; row < 7; ++row) {
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      ASSERT_NO_FATAL_FAILURE(KillIn(row, cell, dead[cell]));
    }
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  static_cast<void>(Clean(20));
  const auto given_up = GivenUp();
  for (const auto& [row, cell] : given_up) {
    for (uint32_t other = 0; other < kCells; ++other) {
      // The last row that is cleaned need not be cleaned to its end.
      if (given_up.contains({row, other}) || row == given_up.rbegin()->first) continue;
      EXPECT_LE(dead[other], dead[cell]) << "row " << row << ", cells " << cell << ", " << other;
    }
  }
  EXPECT_TRUE(given_up.contains({0, 5})) << "two of its records are live";
  EXPECT_FALSE(given_up.contains({0, 2})) << "all of its records are live";
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Records that have not changed for long will not change soon: of two cells with as many live
// records the older one goes.
TEST_F(BucketCleanerTest, OfEquallySparseCellsTheOldestGoFirst) {
  constexpr uint32_t kRowCount = 12;
  ASSERT_NO_FATAL_FAILURE(PutNew(kRowCount * kRow));
  for (uint32_t row = 0; row < kRowCount; ++row) {
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      ASSERT_NO_FATAL_FAILURE(KillIn(row, cell, kCell / 2));
    }
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  static_cast<void>(Clean(25));
  const auto given_up = GivenUp();
  ASSERT_FALSE(given_up.empty());
  ASSERT_LT(given_up.size(), kRowCount * kCells);
  // The first cells, without a gap.
  uint32_t index = 0;
  for (const auto& [row, cell] : given_up) {
    EXPECT_EQ(row * kCells + cell, index) << row << ", " << cell;
    ++index;
  }
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Fewer are dead than the options want cleaned.
TEST_F(BucketCleanerTest, NothingIsMovedBelowTheLimit) {
  ASSERT_NO_FATAL_FAILURE(PutNew(16 * kRow));
  for (uint32_t row = 0; row < 15; ++row) {
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      ASSERT_NO_FATAL_FAILURE(KillIn(row, cell, kCell / 8));
    }
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  static_cast<void>(Clean(30));
  EXPECT_TRUE(GivenUp().empty());
  EXPECT_FALSE(log_->HasRows(0));
  const BucketUse use = Clean(0);
  EXPECT_EQ(use.held_count, use.live_count) << "all of them, when asked for";
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// It tells how many records the bucket has had.
TEST_F(BucketCleanerTest, TheLastRunIsNeverFreed) {
  for (const uint64_t in_last : {uint64_t{1}, kRow / 2, kRow - 1, kRow}) {
    SCOPED_TRACE(in_last);
    ASSERT_NO_FATAL_FAILURE(PutNew((kRow - count_ % kRow) % kRow));
    // One key, again and again: all but the last record are dead.
    const uint64_t end = count_ + 3 * kRow + in_last;
    while (count_ < end) ASSERT_NO_FATAL_FAILURE(Put(0));
    const uint64_t last_run = (count_ - 1) / kRow;
    for (int i = 0; i < 3; ++i) {
      static_cast<void>(Clean(0));
      ASSERT_NO_FATAL_FAILURE(Settle());
    }
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    EXPECT_EQ(log_->RecordCount(0), count_);
    SlotTable table;
    bool damaged = true;
    ASSERT_TRUE(ReadRows(log_->files(), 0, &table, &damaged).ok());
    ASSERT_FALSE(damaged);
    ASSERT_FALSE(table.runs().empty());
    EXPECT_EQ(table.runs().rbegin()->first, last_run);
    EXPECT_EQ(table.rows()[table.runs().rbegin()->second].freed_cells, 0u);
  }
}

// The tombstones fill cells of their own. The older records lie in cells that are left alone,
// because most of their records are live.
TEST_F(BucketCleanerTest, ATombstoneStaysAsLongAsAnOlderRecordOfItsKey) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  constexpr uint64_t kDeleted = 2 * kCell;
  for (uint64_t i = 0; i < kDeleted; ++i) ASSERT_NO_FATAL_FAILURE(Delete(i * kCell));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  for (int i = 0; i < 2; ++i) {
    const BucketUse use = Clean(30);
    EXPECT_EQ(use.live_count, held_.size());
    EXPECT_TRUE(GivenUp().empty());
    ASSERT_NO_FATAL_FAILURE(Settle());
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    EXPECT_EQ(TombstoneCount(), kDeleted);
  }
  // With their older records they are needed no more.
  for (int i = 0; i < 2; ++i) {
    static_cast<void>(Clean(0));
    ASSERT_NO_FATAL_FAILURE(Settle());
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  }
  EXPECT_EQ(TombstoneCount(), 0u);
}

// Given up and not durable yet: after a power loss they would be there again.
TEST_F(BucketCleanerTest, ATombstoneStaysUntilItsOlderRecordIsFreedDurably) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  for (uint64_t key = 0; key < kRow; ++key) ASSERT_NO_FATAL_FAILURE(Delete(key));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  static_cast<void>(Clean(30));
  ASSERT_EQ(GivenUp().size(), kCells) << "the row of the values";
  static_cast<void>(Clean(30));
  EXPECT_EQ(GivenUp().size(), kCells);
  EXPECT_EQ(TombstoneCount(), kRow);
  ASSERT_NO_FATAL_FAILURE(Settle());
  static_cast<void>(Clean(30));
  EXPECT_EQ(GivenUp().size(), kCells) << "the row of the tombstones";
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_EQ(TombstoneCount(), 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Nothing is known of a damaged entry: its cell stays.
TEST_F(BucketCleanerTest, ACellWithADamagedEntryStays) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  for (uint32_t cell = 0; cell < kCells; ++cell) ASSERT_NO_FATAL_FAILURE(KillIn(3, cell, kCell));
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  const uint64_t offset = log_->KeyOffset(0, 3 * kRow + 2 * kCell + 5);
  const uint64_t junk = 0x123456789abcdef0;
  Overwrite(dir_.Join("key_00"), &junk, sizeof(junk), offset + sizeof(uint64_t));
  static_cast<void>(Clean(30));
  const auto given_up = GivenUp();
  EXPECT_EQ(given_up.size(), kCells - 1);
  EXPECT_FALSE(given_up.contains({3, 2}));
  static_cast<void>(Clean(0));
  EXPECT_FALSE(GivenUp().contains({3, 2}));
}

// A value that does not match its checksum must not be written again as if it did.
TEST_F(BucketCleanerTest, ACellWithADamagedValueStays) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  for (uint32_t cell = 0; cell < kCells; ++cell) {
    ASSERT_NO_FATAL_FAILURE(KillIn(3, cell, kCell / 2));
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  const uint64_t offset = log_->LocateValue(0, 3 * kRow + 2 * kCell + kCell - 1).offset;
  Overwrite(dir_.Join("value_00"), "junk", 4, offset + 100);
  static_cast<void>(Clean(0));
  const auto given_up = GivenUp();
  EXPECT_FALSE(given_up.contains({3, 2}));
  EXPECT_EQ(std::count_if(given_up.begin(), given_up.end(),
                          [](const auto& cell) { return cell.first == 3; }),
            kCells - 1);
}

// Tombstones count as dead, although they go only after the records that they delete. Otherwise a
// bucket whose keys are written at one end and deleted at the other held as many of them as keys.
TEST_F(BucketCleanerTest, AWindowOfKeysKeepsToTheLimit) {
  constexpr uint64_t kWindow = 4 * kRow;
  ASSERT_NO_FATAL_FAILURE(PutNew(kWindow));
  uint64_t first = 0;
  for (int lap = 0; lap < 24; ++lap) {
    for (uint64_t i = 0; i < kRow; ++i) {
      ASSERT_NO_FATAL_FAILURE(Delete(first++));
      ASSERT_NO_FATAL_FAILURE(PutNew(1));
    }
    const BucketUse use = Clean(28);
    ASSERT_NO_FATAL_FAILURE(Settle());
    if (lap < 8) continue;
    // The tail's row is not cleaned, nor what was appended to the one before it.
    EXPECT_LE(use.held_count, kWindow * 100 / 72 + 2 * kRow) << "lap " << lap;
    EXPECT_LE(use.live_count, kWindow);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// The cell would be given up, and the value written again with its own hash.
TEST_F(BucketCleanerTest, ACellWithAnotherValueOfTheSameIndexBitsStays) {
  const CollidingValues values;
  ASSERT_TRUE(log_->Append(next_key_, values.first.data()).ok());
  const uint64_t offset = log_->LocateValue(0, 0).offset;
  next_key_ = count_ = 1;
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  for (uint64_t key = 1; key < kRow; ++key) ASSERT_NO_FATAL_FAILURE(Put(key));
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  Overwrite(dir_.Join("value_00"), values.second.data(), values.second.size(), offset);
  static_cast<void>(Clean(0));
  const auto given_up = GivenUp();
  EXPECT_FALSE(given_up.contains({0, 0}));
  EXPECT_TRUE(given_up.contains({0, 1}));
}

}  // namespace
}  // namespace engine_race::test

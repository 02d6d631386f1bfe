// BucketCleaner: which slots of a bucket it gives up, and what it leaves alone.
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

#include "engine_race/base/shared_progress.h"
#include "engine_race/log/row_file.h"
#include "test/log/entry_test_util.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"
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

TEST_F(BucketCleanerTest, SlotsOfDeadRecordsAreGivenUpWhereTheyLie) {
  ASSERT_NO_FATAL_FAILURE(PutNew(16 * kRow));
  std::set<uint64_t> dead;
  for (uint64_t key = 3; key < 15 * kRow; key += 5) {
    ASSERT_NO_FATAL_FAILURE(Put(key));
    dead.insert(key);
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  const BucketUse use = Clean(30);
  EXPECT_EQ(use.live_count, held_.size());
  EXPECT_EQ(use.freed_count, dead.size());
  EXPECT_EQ(use.held_count, count_ - dead.size());
  EXPECT_EQ(GivenUp(), dead);
  EXPECT_EQ(log_->mover().moved_bytes(), 0u);
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// The new records are not in the logs yet, so the old ones keep their slots. Each key still counts
// as one live record.
TEST_F(BucketCleanerTest, AKeyThatWasJustOverwrittenCountsOnce) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  for (uint64_t key = 0; key < 20; ++key) ASSERT_NO_FATAL_FAILURE(Put(key));
  for (uint64_t key = 0; key < 10; ++key) ASSERT_NO_FATAL_FAILURE(Put(key));
  ASSERT_NO_FATAL_FAILURE(Delete(30));
  const BucketUse use = Clean(30);
  EXPECT_EQ(use.live_count, held_.size());
  EXPECT_EQ(use.held_count, count_);
  EXPECT_TRUE(GivenUp().empty());
}

TEST_F(BucketCleanerTest, TheTailFillsGapsBeforeNewRows) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(0, 4 * kRow, 4));
  ASSERT_NO_FATAL_FAILURE(KillEvery(4 * kRow, 5 * kRow, 2));
  ASSERT_NO_FATAL_FAILURE(PutNew((kRow - count_ % kRow) % kRow + kRow));
  static_cast<void>(Clean(30));
  ASSERT_NO_FATAL_FAILURE(Settle());
  const uint64_t gap_count = log_->mover().GapCount(0);
  EXPECT_EQ(gap_count, 4 * kRow / 4 + kRow / 2);
  const uint64_t slot_end = log_->SlotEnd(0);
  for (uint64_t done = 0; done < gap_count; done += 37) {
    const uint64_t first = count_;
    ASSERT_NO_FATAL_FAILURE(PutNew(std::min<uint64_t>(37, gap_count - done)));
    for (const KeyRecord& record : RecordsOf(log_.get(), 0)) {
      if (record.sequence < first) continue;
      EXPECT_LT(record.slot, 5 * kRow);
      if (done < kRow / 4) {
        EXPECT_GE(record.slot, 4 * kRow) << "the emptiest row first";
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
    if (done % 111 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    }
  }
  EXPECT_EQ(log_->SlotEnd(0), slot_end);
  EXPECT_EQ(log_->mover().GapCount(0), 0u);
  ASSERT_NO_FATAL_FAILURE(PutNew(1));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Rounds of overwriting take no more rows than the first ones.
TEST_F(BucketCleanerTest, OverwritingForEverTakesNoMoreRows) {
  constexpr uint64_t kKeys = 12 * kRow;
  ASSERT_NO_FATAL_FAILURE(PutNew(kKeys));
  uint64_t slot_end = 0;
  for (uint64_t round = 0; round < 40; ++round) {
    for (uint64_t i = 0; i < kRow; ++i) {
      ASSERT_NO_FATAL_FAILURE(Put((round * 7919 + i * 104729) % kKeys));
    }
    static_cast<void>(Clean(20));
    ASSERT_NO_FATAL_FAILURE(Settle());
    if (round == 20) slot_end = log_->SlotEnd(0);
    if (round % 8 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    }
  }
  EXPECT_EQ(log_->SlotEnd(0), slot_end);
  EXPECT_LE(slot_end, kKeys * 140 / 100);
  EXPECT_EQ(log_->mover().moved_bytes(), 0u);
}

// A bucket with many more slots than live records.
TEST_F(BucketCleanerTest, TheSparsestRowsAreEmptied) {
  ASSERT_NO_FATAL_FAILURE(PutNew(20 * kRow));
  for (uint64_t key = 0; key < 18 * kRow; ++key) {
    // Of the rows from the seventh on less is left: enough of them to win all that is to be won.
    if (key % (key < 6 * kRow ? 2 : 16) == 0) continue;
    ASSERT_NO_FATAL_FAILURE(Delete(key));
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(3 * kRow));
  EXPECT_EQ(Clean(30).moved_count, 0u) << "next time the tombstones are dead";
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_EQ(Clean(30).moved_count, 12 * kRow / 16) << "the sparse rows";
  for (const KeyRecord& record : RecordsOf(log_.get(), 0)) {
    if (record.tombstone || record.key >= 18 * kRow) continue;
    const bool stayed = record.slot == record.key;
    if (record.key < 6 * kRow) {
      EXPECT_TRUE(stayed) << record.key;
    }
  }
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Appends beside a cleaner go to the same rows first: those with the most gaps.
TEST_F(BucketCleanerTest, RowsThatAreEmptiedAreNotFilledMeanwhile) {
  constexpr uint64_t kEmptied = 16;  // in two pieces
  ASSERT_NO_FATAL_FAILURE(PutNew(40 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(0, 20 * kRow, 2));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  static_cast<void>(Clean(99));
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_EQ(log_->mover().GapCount(0), 20 * kRow / 2);
  uint64_t piece_count = 0;
  const ProgressFn append = [&](uint64_t, uint64_t) {
    ++piece_count;
    PutNew(kRow / 2);
    return !HasFatalFailure();
  };
  SharedProgress progress(append, /*most_count=*/1);
  BucketUse use;
  ASSERT_TRUE(log_->mover().Claim(0));
  const Status cleaned = cleaner_->Clean(0, /*dead_percent=*/1, &use, &progress);
  ASSERT_TRUE(cleaned.ok()) << cleaned.ToString();
  log_->mover().Unclaim(0);
  EXPECT_EQ(piece_count, 2u);
  EXPECT_EQ(use.moved_count, kEmptied * kRow / 2);
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow / 2));
  EXPECT_LT(log_->mover().GapCount(0), 2 * kRow) << "appends go to gaps";
  const uint64_t free_count = log_->mover().FreeRowCount(0);
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_EQ(log_->mover().FreeRowCount(0), free_count + kEmptied);
  for (const KeyRecord& record : RecordsOf(log_.get(), 0)) EXPECT_GE(record.slot, kEmptied * kRow);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

TEST_F(BucketCleanerTest, NothingIsMovedBelowTheLimit) {
  ASSERT_NO_FATAL_FAILURE(PutNew(16 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(0, 15 * kRow, 8));
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  EXPECT_EQ(Clean(30).moved_count, 0u);
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_GT(Clean(0).moved_count, 0u) << "when asked for";
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
    for (int i = 0; i < 3; ++i) {
      static_cast<void>(Clean(0));
      ASSERT_NO_FATAL_FAILURE(Settle());
    }
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    EXPECT_EQ(log_->RecordCount(0), count_);
    BucketRows found{.table = {}, .damaged = true};
    ASSERT_TRUE(ReadRows(log_->files(), 0, {&found, 1}).ok());
    ASSERT_FALSE(found.damaged);
    ASSERT_FALSE(found.table.runs().empty());
    EXPECT_GE(found.table.RunEnd(), count_);
  }
}

// Its live ones stay where they are.
TEST_F(BucketCleanerTest, DeadRecordsOfTheLastRunAreGivenUp) {
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  for (uint64_t i = 0; i < kRow / 2; ++i) ASSERT_NO_FATAL_FAILURE(Put(0));
  ASSERT_TRUE(log_->Sync().ok());
  ASSERT_NO_FATAL_FAILURE(PutNew(3));
  const BucketUse use = Clean(0);
  EXPECT_EQ(use.live_count, held_.size());
  EXPECT_EQ(use.held_count, held_.size());
  std::set<uint64_t> dead = {0};
  for (uint64_t i = 0; i + 1 < kRow / 2; ++i) dead.insert(2 * kRow + i);
  EXPECT_EQ(GivenUp(), dead);
  ASSERT_NO_FATAL_FAILURE(Settle());
  // The run goes on. Its row is filled again once it has ended.
  EXPECT_EQ(log_->mover().GapCount(0), 0u);
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_GT(log_->mover().GapCount(0), 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// An empty last run still tells how many records there were, also after a loss of power.
TEST_F(BucketCleanerTest, ABucketOfWhichAllWasDeletedGoesOn) {
  for (const bool loses_power : {false, true}) {
    SCOPED_TRACE(loses_power);
    const uint64_t begin = next_key_;
    ASSERT_NO_FATAL_FAILURE(PutNew(3 * kRow));
    for (uint64_t key = begin; key < next_key_; ++key) ASSERT_NO_FATAL_FAILURE(Delete(key));
    ASSERT_TRUE(log_->Sync().ok());
    for (int i = 0; i < 3; ++i) {
      static_cast<void>(Clean(0));
      ASSERT_NO_FATAL_FAILURE(Settle());
    }
    EXPECT_EQ(Clean(0).held_count, held_.size());
    const uint64_t store_id = log_->store_id();
    cleaner_.reset();
    log_.reset();
    if (loses_power) LosePower(dir_.path(), store_id);
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    EXPECT_EQ(log_->RecordCount(0), count_);
    ASSERT_NO_FATAL_FAILURE(PutNew(kRow / 2));
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
    EXPECT_EQ(log_->RecordCount(0), count_);
  }
}

TEST_F(BucketCleanerTest, ATombstoneGoesAfterTheOlderRecordOfItsKey) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  constexpr uint64_t kDeleted = 64;
  for (uint64_t i = 0; i < kDeleted; ++i) ASSERT_NO_FATAL_FAILURE(Delete(i * 32));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  const BucketUse use = Clean(30);
  EXPECT_EQ(use.live_count, held_.size());
  EXPECT_TRUE(use.has_more);
  EXPECT_EQ(GivenUp().size(), kDeleted) << "the older records";
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  EXPECT_EQ(TombstoneCount(), kDeleted);
  static_cast<void>(Clean(30));
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  EXPECT_EQ(TombstoneCount(), 0u);
}

// Given up and not durable yet: after a power loss they would be there again.
TEST_F(BucketCleanerTest, ATombstoneStaysUntilItsOlderRecordIsFreedDurably) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  for (uint64_t key = 0; key < kRow; ++key) ASSERT_NO_FATAL_FAILURE(Delete(key));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  static_cast<void>(Clean(30));
  ASSERT_EQ(GivenUp().size(), kRow) << "the row of the values";
  static_cast<void>(Clean(30));
  EXPECT_EQ(GivenUp().size(), kRow);
  EXPECT_EQ(TombstoneCount(), kRow);
  ASSERT_NO_FATAL_FAILURE(Settle());
  static_cast<void>(Clean(30));
  EXPECT_EQ(GivenUp().size(), kRow) << "the row of the tombstones";
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_EQ(TombstoneCount(), 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Nothing is known of a damaged entry: its slot stays, and so do rows with older records.
TEST_F(BucketCleanerTest, ASlotWithADamagedEntryStays) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(3 * kRow, 4 * kRow));
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  constexpr uint64_t kDamaged = 3 * kRow + 69;
  const uint64_t offset = log_->slots().LocateKeys(0, kDamaged).offset;
  const uint64_t junk = 0x123456789abcdef0;
  Overwrite(dir_.Join("key_00"), &junk, sizeof(junk), offset + sizeof(uint64_t));
  for (const uint32_t dead_percent : {30u, 0u}) {
    static_cast<void>(Clean(dead_percent));
    EXPECT_FALSE(GivenUp().contains(kDamaged));
    for (const uint64_t slot : GivenUp()) EXPECT_GE(slot, 3 * kRow);
  }
}

// A value that does not match its checksum must not be written again as if it did.
TEST_F(BucketCleanerTest, ARowWithADamagedValueIsNotEmptied) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(3 * kRow, 4 * kRow, 2));
  ASSERT_NO_FATAL_FAILURE(KillEvery(5 * kRow, 6 * kRow, 2));
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  constexpr uint64_t kDamaged = 3 * kRow + 101;
  Overwrite(dir_.Join("value_00"), "junk", 4, log_->slots().LocateValues(0, kDamaged).offset + 100);
  static_cast<void>(Clean(0));
  EXPECT_FALSE(GivenUp().contains(kDamaged));
  EXPECT_TRUE(GivenUp().contains(3 * kRow + 100)) << "dead";
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

// Nothing is appended meanwhile, so the horizon stays where it is.
TEST_F(BucketCleanerTest, TheLatestCopyOfARecordIsTheLiveOne) {
  ASSERT_NO_FATAL_FAILURE(PutNew(12 * kRow));
  for (uint64_t key = 0; key < 10 * kRow; ++key) {
    if (key % 32 == 0) continue;
    ASSERT_NO_FATAL_FAILURE(Put(key));
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  EXPECT_GT(Clean(0).moved_count, 0u);
  const auto given_up = GivenUp();
  EXPECT_EQ(Clean(0).moved_count, 0u);
  EXPECT_EQ(GivenUp(), given_up) << "the copies that are live stay";
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  EXPECT_EQ(Clean(0).moved_count, 0u);
  EXPECT_EQ(GivenUp(), given_up) << "given up again";
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// The value would be written again with its own hash.
TEST_F(BucketCleanerTest, ARowWithAnotherValueOfTheSameIndexBitsIsNotEmptied) {
  const CollidingValues values;
  ASSERT_TRUE(log_->Append(next_key_, values.first.data()).ok());
  const uint64_t offset = log_->slots().LocateValues(0, 0).offset;
  next_key_ = count_ = 1;
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  for (uint64_t key = 1; key < kRow; ++key) ASSERT_NO_FATAL_FAILURE(Put(key));
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  Overwrite(dir_.Join("value_00"), values.second.data(), values.second.size(), offset);
  static_cast<void>(Clean(0));
  EXPECT_FALSE(GivenUp().contains(0));
  EXPECT_TRUE(GivenUp().contains(1));
}

}  // namespace
}  // namespace engine_race::test

// An index on disk over a bucket whose slots are used again: an opening believes it as far as it is
// right, reads what came since, and nothing else.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "test/reclaim/covered_rows_fixture.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Forms, CoveredRowsTest, testing::Values(Form::kFlat, Form::kPaged),
                         NameOf);

TEST_P(CoveredRowsTest, AnOpeningAfterCleaningReadsFewEntries) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(OverwriteAndClean());
  // The deltas of the index have what was written and moved; an index that was built has none.
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(Save());
  uint64_t read_bytes = 0;
  ASSERT_NO_FATAL_FAILURE(Reopen(&read_bytes));
  ExpectCovered();
  // A page for the last entry that the root covers, and the last run.
  const uint64_t row_bytes = log_->geometry().row_records() * sizeof(format::KeyEntry);
  EXPECT_LE(read_bytes, kIoAlignment + row_bytes);
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
  // Nothing came since: the index on disk stays as it is.
  const uint64_t written_bytes = index_->written_bytes();
  ASSERT_NO_FATAL_FAILURE(Save());
  EXPECT_EQ(index_->written_bytes(), written_bytes);
}

TEST_P(CoveredRowsTest, RowsThatWereBornSinceAreAllThatIsRead) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(Save());
  const uint64_t row_records = log_->geometry().row_records();
  const uint64_t row_bytes = row_records * sizeof(format::KeyEntry);
  // Of two old rows.
  for (uint64_t i = 0; i < row_records; ++i) ASSERT_NO_FATAL_FAILURE(Put(2 * i));
  // A cleaner looks at durable records alone.
  ASSERT_TRUE(log_->Sync().ok());
  const uint64_t births = Table().births();
  ASSERT_NO_FATAL_FAILURE(Clean());
  const uint64_t born_count = Table().births() - births;
  ASSERT_GT(born_count, 0U);
  uint64_t read_bytes = 0;
  ASSERT_NO_FATAL_FAILURE(Reopen(&read_bytes));
  ExpectCovered();
  // The appended records lie in two runs at most.
  EXPECT_LE(read_bytes, kIoAlignment + (born_count + 2) * row_bytes);
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
}

// Of these keys the store has neither a record nor a tombstone any more, and other records lie
// where the extents say that theirs lie.
TEST_P(CoveredRowsTest, DeletedKeysStayDeleted) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(Save());
  const uint64_t row_records = log_->geometry().row_records();
  for (uint64_t key = 0; key < 2 * row_records; ++key) ASSERT_NO_FATAL_FAILURE(Delete(key));
  ASSERT_NO_FATAL_FAILURE(PutMany(kKeys / 2, row_records));
  ASSERT_NO_FATAL_FAILURE(Clean());
  ASSERT_TRUE(Table().rows()[0].free());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ExpectCovered();
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
  // Now the tombstones are dead, too.
  ASSERT_NO_FATAL_FAILURE(Clean());
  ASSERT_NO_FATAL_FAILURE(PutMany(kKeys / 2, 4 * row_records));
  ASSERT_GT(Table().rows()[0].birth, 0U);
  ASSERT_FALSE(Table().rows()[0].free());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ExpectCovered();
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  // Another root names the same extents, and covers the rows that were born.
  ASSERT_NO_FATAL_FAILURE(Save());
  ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
  ExpectCovered();
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  // Merges take void words for none.
  ASSERT_NO_FATAL_FAILURE(PutMany(0, kKeys / 4));
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
}

TEST_P(CoveredRowsTest, MovedKeysAreFoundWhereTheyWereMovedTo) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(Save());
  const uint64_t row_records = log_->geometry().row_records();
  // Most of the first rows are dead. What is left of them is moved, and other records take the
  // rows.
  for (uint64_t key = 0; key < 3 * row_records; ++key) {
    if (key % 8 == 0) continue;
    ASSERT_NO_FATAL_FAILURE(Put(key));
  }
  ASSERT_NO_FATAL_FAILURE(PutMany(kKeys / 2, row_records));
  ASSERT_NO_FATAL_FAILURE(Clean());
  ASSERT_NO_FATAL_FAILURE(PutMany(kKeys / 2, 3 * row_records));
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ExpectCovered();
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
}

// A moved record that was read again is older than one that was appended before it was moved, and
// after the cleaner looked.
TEST_P(CoveredRowsTest, RecordsBehindTheHorizonOfAMoveStayNewer) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  const uint64_t row_records = log_->geometry().row_records();
  std::vector<KeyRecord> moved = RecordsOf(log_.get(), 0);
  ASSERT_NO_FATAL_FAILURE(Reopen());
  const uint64_t horizon = log_->RecordCount(0);
  std::erase_if(moved, [&](const KeyRecord& each) { return each.slot >= row_records; });
  RowMover& mover = log_->mover();
  ASSERT_TRUE(mover.Claim(0));
  ASSERT_TRUE(mover.Begin(0).ok());
  uint32_t row = 0;
  ASSERT_TRUE(mover.TakeRow(0, /*kept_count=*/0, &row).ok());
  Region values;
  ASSERT_TRUE(Region::Allocate(row_records * kValueBytes, /*huge_pages=*/false, &values).ok());
  ASSERT_TRUE(log_->slots().ReadValues(0, 0, row_records, values.data()).ok());
  const uint64_t group = log_->geometry().values_per_group();
  for (uint64_t i = 0; i < row_records; i += group) {
    ASSERT_TRUE(
        mover.WriteValues(0, row * row_records + i, group, values.data() + i * kValueBytes).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Put(0));
  ASSERT_NO_FATAL_FAILURE(Delete(1));
  // The extents of this root have both, and its moment is before the row is born.
  ASSERT_NO_FATAL_FAILURE(Save());
  ASSERT_TRUE(mover.Publish(0, row, horizon, moved).ok());
  mover.Unclaim(0);
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
}

// The records of the row are where they were moved from. The root knows them in the row alone.
TEST_P(CoveredRowsTest, ARowThatAPowerLossTakesBackIsNotCovered) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  const uint64_t row_records = log_->geometry().row_records();
  for (uint64_t key = 0; key < 3 * row_records; ++key) {
    if (key % 8 == 0) continue;
    ASSERT_NO_FATAL_FAILURE(Put(key));
  }
  ASSERT_TRUE(log_->Sync().ok());
  const uint64_t births = Table().births();
  ASSERT_NO_FATAL_FAILURE(Clean(/*settle=*/false));
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(Save());
  const std::vector<Row> rows = Table().rows();
  std::optional<uint64_t> lost;
  for (uint64_t row = 0; row < rows.size(); ++row) {
    if (rows[row].kind == format::RowKind::kMoving) lost = row;
  }
  ASSERT_TRUE(lost.has_value());
  const SlotLocation location = log_->slots().LocateValues(0, *lost * row_records);
  const std::string value_log = dir_.Join(location.file->name());
  const uint64_t store_id = log_->store_id();
  Close();
  LoseBytes(value_log, location.offset, kValueBytes);
  Restart(dir_.path(), store_id, options_.bucket_count);
  Open();
  EXPECT_TRUE(Table().rows()[*lost].free());
  EXPECT_FALSE(SlotTable::IsOneEra(Table().births(), births));
  EXPECT_TRUE(messages_.Said(kNotCovered));
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  ASSERT_NO_FATAL_FAILURE(Save());
  ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
  ExpectCovered();
}

// The index writes roots on a thread of its own, too: each is seen from its beginning.
TEST_P(CoveredRowsTest, ARootIsWrittenWhenTheRowsThatItCoversAreDurable) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(OverwriteAndClean());
  Close();
  const std::string rows = dir_.Join(format::kRowsName);
  std::atomic<int> root_count{0};
  CallWatch watch([&](SystemCall* call) {
    thread_local bool rows_are_durable = false;
    const bool is_root =
        call->kind == CallKind::kRenameAt && std::string(call->new_name) == format::kIndexRootName;
    root_count += is_root ? 1 : 0;
    EXPECT_TRUE(rows_are_durable || !is_root);
    const bool is_write = call->kind == CallKind::kPwrite && PathOf(*call) == rows;
    const bool is_flush = call->kind == CallKind::kFdatasync && PathOf(*call) == rows;
    const long result = call->Proceed();
    rows_are_durable = (rows_are_durable && !is_write && !is_root) || is_flush;
    return result;
  });
  const ScopedHook hook(&watch);
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OverwriteAndClean(/*settle=*/false));
  ASSERT_NO_FATAL_FAILURE(Save());
  EXPECT_GT(root_count, 0);
}

// Roots of all ages, between writes, deletes and cleanings.
TEST_P(CoveredRowsTest, EveryMixOfSavesAndCleaningsIsRight) {
  std::mt19937_64 random(GetParam() == Form::kPaged ? 7 : 8);
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(Save());
  uint64_t covered_count = 0;
  const uint64_t round_count = Sized(30, PartOf(30, 2));
  for (uint64_t round = 0; round < round_count; ++round) {
    // Some rounds touch few keys: their parts of the index stay as they are for long.
    const uint64_t key_count = random() % 3 == 0 ? kKeys : kKeys / 8;
    const uint64_t first_key = random() % (kKeys - key_count + 1);
    for (uint64_t i = random() % 1500; i > 0; --i) {
      const uint64_t key = first_key + random() % key_count;
      if (random() % 3 == 0) {
        ASSERT_NO_FATAL_FAILURE(Delete(key));
      } else {
        ASSERT_NO_FATAL_FAILURE(Put(key));
      }
    }
    if (random() % 4 != 0) {
      const uint32_t dead_percent = random() % 3 == 0 ? 0 : 50;  // mostly, nothing is moved
      ASSERT_NO_FATAL_FAILURE(Clean(/*settle=*/random() % 4 != 0, dead_percent));
    }
    if (random() % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(Save());
    }
    if (random() % 4 == 0) {
      ASSERT_NO_FATAL_FAILURE(Clean());
    }
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(Reopen());
    covered_count += messages_.Said(kNotCovered) ? 0 : 1;
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
    if (round % 5 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectVerifies());
    }
  }
  EXPECT_GT(covered_count, round_count / 2) << "most openings should find the index of use";
}

}  // namespace
}  // namespace engine_race::test

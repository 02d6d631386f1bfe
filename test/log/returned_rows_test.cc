// Rows that hold nothing give their places back, and get others when they are used again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/log/row_mover.h"
#include "engine_race/log/segment_format.h"
#include "test/log/row_mover_fixture.h"

namespace engine_race::test {
namespace {

class ReturnedRowsTest : public RowMoverTest {
 protected:
  RowMover& mover() { return log_->mover(); }
  void Settle(int count = 1) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(mover().Settle().ok());
  }
  // Row 0 holds nothing and has no place any more.
  void ReturnFirstRow() {
    ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
    ASSERT_NO_FATAL_FAILURE(Settle());
    mover().Release();
    ASSERT_NO_FATAL_FAILURE(Settle(2));
    ASSERT_FALSE(mover().IsReturning());
  }
  bool HasPlace(uint64_t row, uint32_t bucket = 0) const {
    return log_->slots().HasPlace(bucket, row);
  }
  uint64_t NumberOf(uint64_t row, uint32_t bucket = 0) const {
    uint64_t number = 0;
    EXPECT_TRUE(log_->slots().NumberOf(bucket, row, &number)) << row;
    return number;
  }
  // To bucket 0, or to bucket 1, which lies in the same files.
  void AppendRow(uint64_t first_key) {
    for (uint64_t key = first_key; key < first_key + kRow; ++key) {
      ASSERT_TRUE(log_->Append(key, ValueOf(key, 1).data()).ok());
    }
  }
  void ExpectKeys(uint64_t count, uint32_t bucket = 0) const {
    std::vector<bool> found(count);
    for (const KeyRecord& record : RecordsOf(log_.get(), bucket)) {
      const uint64_t i = record.key - bucket * kKeyStep;
      ASSERT_LT(i, count);
      found[i] = true;
      ASSERT_EQ(ReadSlot(*log_, bucket, record.slot), ValueOf(record.key, 1));
    }
    EXPECT_EQ(std::count(found.begin(), found.end(), true), static_cast<ptrdiff_t>(count));
  }
  void Reopen() {
    log_.reset();
    log_ = OpenLog(TinyLogOptions(), dir_.path());
    ASSERT_NE(log_, nullptr);
  }
  uint64_t BirthsOnDisk() const {
    BucketRows found{.table = {}, .damaged = true};
    EXPECT_TRUE(ReadRows(log_->files(), 0, {&found, 1}).ok());
    EXPECT_FALSE(found.damaged);
    return found.table.births();
  }
};

TEST_F(ReturnedRowsTest, TheRowOfAnotherBucketGetsThePlace) {
  const uint64_t place = NumberOf(0);
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_NO_FATAL_FAILURE(Settle());
  mover().Release();
  EXPECT_TRUE(mover().IsReturning());
  EXPECT_TRUE(HasPlace(0));
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_FALSE(HasPlace(0));
  ASSERT_NO_FATAL_FAILURE(AppendRow(kKeyStep));
  EXPECT_NE(NumberOf(0, 1), place) << "a power loss could bring the entry back";
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_FALSE(mover().IsReturning());
  ASSERT_NO_FATAL_FAILURE(AppendRow(kKeyStep + kRow));
  EXPECT_EQ(NumberOf(1, 1), place);
  ASSERT_NO_FATAL_FAILURE(ExpectKeys(3 * kRow));
  ASSERT_NO_FATAL_FAILURE(ExpectKeys(2 * kRow, 1));
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_FALSE(HasPlace(0));
  ASSERT_NO_FATAL_FAILURE(ExpectKeys(3 * kRow));
  ASSERT_NO_FATAL_FAILURE(ExpectKeys(2 * kRow, 1));
}

// The tail comes to it first, because no other row is free.
TEST_F(ReturnedRowsTest, ARowThatIsUsedAgainGetsAPlace) {
  ASSERT_NO_FATAL_FAILURE(ReturnFirstRow());
  ASSERT_NO_FATAL_FAILURE(AppendRow(kKeyStep));
  ASSERT_NO_FATAL_FAILURE(AppendRow(3 * kRow));
  EXPECT_TRUE(HasPlace(0));
  EXPECT_TRUE(RowOnDisk(0).has_run());
  for (int opening = 0; opening < 2; ++opening) {
    ASSERT_NO_FATAL_FAILURE(ExpectKeys(4 * kRow));
    ASSERT_NO_FATAL_FAILURE(ExpectKeys(kRow, 1));
    ASSERT_NO_FATAL_FAILURE(Reopen());
  }
}

TEST_F(ReturnedRowsTest, AnOpeningFindsEachStepAndGoesOn) {
  for (int steps = 1; steps < 4; ++steps) {
    SCOPED_TRACE(steps);
    ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
    const uint64_t births = BirthsOnDisk();
    for (int step = 0; step < steps; ++step) {
      ASSERT_NO_FATAL_FAILURE(Settle());
      mover().Release();
    }
    ASSERT_NO_FATAL_FAILURE(Reopen());
    EXPECT_GE(BirthsOnDisk(), births);
    ASSERT_NO_FATAL_FAILURE(ExpectKeys(3 * kRow));
    ASSERT_NO_FATAL_FAILURE(Settle());
    mover().Release();
    mover().ReleaseLeftovers(0);
    ASSERT_NO_FATAL_FAILURE(Settle(2));
    ASSERT_FALSE(HasPlace(0));
    // Back into the first row.
    ASSERT_NO_FATAL_FAILURE(Move(moved_row_));
    ASSERT_EQ(moved_row_, 0u);
    ASSERT_NO_FATAL_FAILURE(Settle());
    mover().Release();
    ASSERT_NO_FATAL_FAILURE(ExpectKeys(3 * kRow));
  }
}

// The index on disk counts by births.
TEST_F(ReturnedRowsTest, BirthsDoNotFallWithTheRowsThatHadThem) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_EQ(moved_row_, 3u);
  ASSERT_NO_FATAL_FAILURE(Settle());
  const uint64_t births = BirthsOnDisk();
  ASSERT_EQ(RowOnDisk(3).birth, births);
  ASSERT_NO_FATAL_FAILURE(GiveUpSlots(log_.get(), 0, 3, SlotBits::First(kRow)));
  ASSERT_NO_FATAL_FAILURE(Settle(2));
  ASSERT_FALSE(HasPlace(3));
  EXPECT_GE(BirthsOnDisk(), births);
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_GE(BirthsOnDisk(), births);
  EXPECT_FALSE(HasPlace(3));
}

// It may have its files copied one after the other.
TEST_F(ReturnedRowsTest, ACutKeepsThePlaces) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_NO_FATAL_FAILURE(Settle());
  mover().Release();
  std::vector<CutPin> pins = log_->PinRows();
  ASSERT_NO_FATAL_FAILURE(Settle(3));
  EXPECT_TRUE(HasPlace(0));
  EXPECT_FALSE(mover().IsReturning()) << "nothing is flushed again and again meanwhile";
  pins.clear();
  // Another row gets free.
  ASSERT_NO_FATAL_FAILURE(Move(1));
  ASSERT_NO_FATAL_FAILURE(Settle());
  mover().Release();
  ASSERT_NO_FATAL_FAILURE(Settle(2));
  EXPECT_FALSE(HasPlace(1));
}

// The rows of a full bucket would wait for flushes.
TEST_F(ReturnedRowsTest, ABucketWithFewRowsLeftKeepsThePlaces) {
  const uint64_t row_count = log_->geometry().rows_per_bucket();
  for (uint64_t row = 3; row < row_count / 2 + 1; ++row) {
    ASSERT_NO_FATAL_FAILURE(AppendRow(row * kRow));
  }
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_NO_FATAL_FAILURE(Settle());
  mover().Release();
  ASSERT_NO_FATAL_FAILURE(Settle(2));
  EXPECT_TRUE(HasPlace(0));
}

TEST_F(ReturnedRowsTest, FilesGetShorterWithTheirLastRows) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_NO_FATAL_FAILURE(Settle());
  mover().Release();
  // The moved row lies behind the others.
  ASSERT_NO_FATAL_FAILURE(GiveUpSlots(log_.get(), 0, moved_row_, SlotBits::First(kRow)));
  ASSERT_NO_FATAL_FAILURE(Settle(2));
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_EQ(std::filesystem::file_size(dir_.Join("value_00")),
            3 * log_->geometry().segment_value_bytes());
  EXPECT_EQ(std::filesystem::file_size(dir_.Join("key_00")),
            3 * log_->geometry().segment_key_bytes());
  ASSERT_NO_FATAL_FAILURE(AppendRow(3 * kRow));
  ASSERT_NO_FATAL_FAILURE(Reopen());
  EXPECT_EQ(RecordsOf(log_.get(), 0).size(), 3 * kRow);
}

// A row whose entry is lost looks free.
TEST_F(ReturnedRowsTest, AMissingEntryIsDamageAndNoFreeRow) {
  ASSERT_NO_FATAL_FAILURE(ReturnFirstRow());
  ASSERT_NO_FATAL_FAILURE(AppendRow(kKeyStep));
  const uint64_t number = NumberOf(1);
  log_.reset();
  const format::SegmentEntry none{};
  ASSERT_NO_FATAL_FAILURE(
      Overwrite(dir_.Join(format::kSegmentTableName), &none, sizeof(none), number * sizeof(none)));
  log_ = OpenLog(TinyLogOptions(), dir_.path());
  ASSERT_NE(log_, nullptr);
  EXPECT_TRUE(log_->BucketDamaged(0));
  EXPECT_FALSE(log_->BucketDamaged(1));
}

}  // namespace
}  // namespace engine_race::test

// Buckets whose records have numbers beside the widths of the fields that have parts of them.
//
// Counts words have 27 bits of a number, positions 32, entries and rows 48.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/copies/copies.h"
#include "test/log/log_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kLimitRow = 256;
constexpr uint64_t kStep = 2048;
constexpr uint64_t kBegun = 2 * kLimitRow;

class SequenceLimitsTest : public ::testing::Test {
 protected:
  // Makes a bucket of two rows, whose first record has the number `first`. Keys count from 0.
  void Make(uint64_t first) {
    first_ = first;
    log_.reset();
    {
      const auto log = OpenLog(options_, dir_.path());
      for (uint64_t i = 0; i < kBegun; ++i) {
        ASSERT_TRUE(log->Append(i, ValueOf(i, 1).data()).ok()) << i;
      }
      ASSERT_TRUE(log->Sync().ok());
    }
    ASSERT_NO_FATAL_FAILURE(RenumberRecords(options_, dir_.path(), 0, first, kBegun));
    Open();
    ASSERT_EQ(log_->RecordCount(0), first + kBegun);
    count_ = kBegun;
  }
  void StartAnew() {
    log_.reset();
    has_moved_ = false;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      std::filesystem::remove_all(entry.path());
    }
  }
  void Open() {
    log_.reset();
    log_ = OpenLog(options_, dir_.path());
    ASSERT_NE(log_, nullptr);
    ASSERT_FALSE(log_->BucketDamaged(0));
  }
  Status TryAppend() { return log_->Append(count_, ValueOf(count_, 1).data()); }
  void AppendTo(uint64_t count) {
    while (count_ < count) {
      const Status status = TryAppend();
      ASSERT_TRUE(status.ok()) << first_ + count_ << ": " << status.ToString();
      ++count_;
    }
  }
  // The bucket has `count_` records, with their numbers, and each has its value.
  void ExpectAll() {
    ASSERT_EQ(log_->RecordCount(0), first_ + count_);
    const std::vector<KeyRecord> records = RecordsOf(log_.get(), 0);
    ASSERT_EQ(records.size(), count_);
    std::map<uint64_t, KeyRecord> by_key;
    for (const KeyRecord& record : records) by_key[record.key] = record;
    for (uint64_t i = 0; i < count_; ++i) {
      const bool was_moved = has_moved_ && i < kLimitRow;
      const KeyRecord& record = by_key[i];
      ASSERT_EQ(record.key, i);
      ASSERT_EQ(record.sequence, first_ + i);
      ASSERT_EQ(ReadSlot(*log_, 0, record.slot), ValueOf(i, 1)) << first_ + i;
      format::KeyEntry entry;
      if (was_moved) {
        ASSERT_EQ(log_->reader().ReadKeyEntry(0, first_ + i, &entry).code(),
                  Code::kInvalidArgument);
      } else {
        ASSERT_TRUE(log_->reader().ReadKeyEntry(0, first_ + i, &entry).ok());
        ASSERT_EQ(entry.key, i);
      }
    }
  }
  void ExpectAllAfterReopening() {
    log_.reset();
    VerifyReport report;
    const Status verified = VerifyStore(dir_.path(), &report, [](const BadRecord& bad) {
      ADD_FAILURE() << bad.file << ", slot " << bad.slot << ": " << bad.what;
    });
    ASSERT_TRUE(verified.ok()) << verified.ToString();
    EXPECT_EQ(report.record_count, count_);
    EXPECT_EQ(report.lost_tail_count, 0u);
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(ExpectAll());
  }
  // Recovery counts a record that is not synced as far as it verifies.
  void LosePower() {
    const uint64_t store_id = log_->store_id();
    log_.reset();
    SetWord(dir_.path(), store_id, 0, format::WordKind::kPageCache, 12345);
  }
  // Moves the records of the first row to another one.
  void MoveFirstRow() {
    has_moved_ = true;
    uint32_t row = 0;
    ASSERT_NO_FATAL_FAILURE(MoveRow(log_.get(), /*bucket=*/0, /*from_row=*/0, &row));
    RowMover& mover = log_->mover();
    ASSERT_TRUE(mover.Settle().ok());
    mover.Release();
  }

  const TempDir dir_{FastParent()};
  Options options_ = TinyLogOptions();  // buckets of 16 rows
  std::unique_ptr<BucketLog> log_;
  uint64_t first_ = 0;
  uint64_t count_ = 0;
  bool has_moved_ = false;  // the first row
};

class SequenceWidthTest : public SequenceLimitsTest,
                          public ::testing::WithParamInterface<uint32_t> {
 protected:
  uint64_t limit() const { return uint64_t{1} << GetParam(); }
};

TEST_P(SequenceWidthTest, ABucketGoesOnBehindIt) {
  ASSERT_NO_FATAL_FAILURE(Make(limit() - kStep));
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
  // Each time with another part of a group in staging.
  for (const uint64_t count :
       {kStep - 3, kStep - 1, kStep, kStep + 1, kStep + 6, kStep + kLimitRow}) {
    SCOPED_TRACE(first_ + count);
    ASSERT_NO_FATAL_FAILURE(AppendTo(count));
    ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
  }
}

// Unsynced records count as far as they verify, whatever the lost counts were.
TEST_P(SequenceWidthTest, ABucketGoesOnBehindItAfterALossOfPower) {
  for (const uint64_t synced : {kStep - 9, kStep, kStep + 5}) {
    SCOPED_TRACE(synced);
    StartAnew();
    ASSERT_NO_FATAL_FAILURE(Make(limit() - kStep));
    ASSERT_NO_FATAL_FAILURE(AppendTo(synced));
    ASSERT_TRUE(log_->Sync().ok());
    // Behind the next groups of values and of entries.
    const uint64_t appended = synced + kLimitRow + 7;
    ASSERT_NO_FATAL_FAILURE(AppendTo(appended));
    ASSERT_NO_FATAL_FAILURE(LosePower());
    ASSERT_NO_FATAL_FAILURE(Open());
    count_ = log_->RecordCount(0) - first_;
    EXPECT_GE(count_, synced);
    EXPECT_LE(count_, appended);
    ASSERT_NO_FATAL_FAILURE(ExpectAll());
    ASSERT_NO_FATAL_FAILURE(AppendTo(appended + kLimitRow));
    ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
  }
}

TEST_P(SequenceWidthTest, TheJournalNamesRecordsBehindIt) {
  ASSERT_NO_FATAL_FAILURE(Make(limit() - kStep));
  options_.sync_mode = SyncMode::kEveryWrite;
  options_.journal_bytes = kMinJournalBytes;
  ASSERT_NO_FATAL_FAILURE(Open());
  // The records are durable in the journal alone.
  ASSERT_NO_FATAL_FAILURE(AppendTo(kStep + 5));
  ASSERT_NO_FATAL_FAILURE(LosePower());
  ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
}

// The row has the number of records that the bucket had.
TEST_P(SequenceWidthTest, RecordsAreMovedBehindIt) {
  for (const uint64_t count : {kStep - 1, kStep, kStep + 1}) {
    SCOPED_TRACE(count);
    StartAnew();
    ASSERT_NO_FATAL_FAILURE(Make(limit() - kStep));
    ASSERT_NO_FATAL_FAILURE(AppendTo(count));
    ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
    ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
    ASSERT_NO_FATAL_FAILURE(AppendTo(count + 2 * kLimitRow));
    ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, SequenceWidthTest, ::testing::Values(26, 27, 28, 32, 35, 36, 47),
                         [](const auto& info) { return std::to_string(info.param); });

// The bucket refuses records, and serves what it has.
TEST_F(SequenceLimitsTest, NumbersEndAfter48Bits) {
  constexpr uint64_t kEnd = uint64_t{1} << format::kSequenceBits;
  ASSERT_NO_FATAL_FAILURE(Make(kEnd - kStep));
  Status status;
  while (status.ok() && count_ <= kStep) {
    status = TryAppend();
    if (status.ok()) ++count_;
  }
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  EXPECT_LT(first_ + count_, kEnd) << "the number of a moved row would not fit";
  EXPECT_GE(first_ + count_, kEnd - 2 * kLimitRow);
  EXPECT_EQ(TryAppend().code(), Code::kFull);
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
  ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  EXPECT_EQ(TryAppend().code(), Code::kFull) << "a free row gives no numbers";
  ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
}

}  // namespace
}  // namespace engine_race::test

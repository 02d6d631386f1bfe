#include "engine_race/log/power_recovery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine_race/log/page_cache.h"
#include "test/log/entry_test_util.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kPageCache = 99;

// A store of which nothing is synced, opened but not recovered.
class PowerRecoveryTest : public ::testing::Test {
 protected:
  void MakeStore(uint64_t count) {
    LogParts parts(TinyLogOptions(), dir_.path());
    for (uint64_t key = 0; key < count; ++key) {
      const auto other = values_.find(key);
      const std::string value = other == values_.end() ? ValueOf(key, 1) : other->second;
      ASSERT_TRUE(parts.groups.BeginAppend(0).ok());
      ASSERT_TRUE(parts.groups.Append(0, key, value.data(), /*journal=*/nullptr).ok());
    }
  }
  void Open() {
    context_ = std::make_unique<LogContext>(
        TinyLogOptions(), OpenedFiles(TinyLogOptions(), dir_.path()), numa::StorePlacement());
    context_->staging.Start(StagingMode::kAuto, kNoMemoryLimit, LogFn(), Placement());
    writer_ = std::make_unique<LogWriter>(context_.get());
    ASSERT_TRUE(context_->staging.ReadCounts(&states_).ok());
  }
  Status Run() {
    const JournalReplay no_journal;
    return PowerRecovery(context_.get(), writer_.get(), no_journal)
        .Run(kPageCache, &states_, &readable_);
  }
  void RunWatched(ChangeOrder* order) {
    const ScopedHook hook(order);
    ASSERT_TRUE(Run().ok());
  }
  void OverwriteValue(uint64_t slot, const std::string& value) {
    Overwrite(dir_.Join("value_00"), value.data(), value.size(),
              context_->files.slots.LocateValues(0, slot).offset);
  }

  const TempDir dir_{FastParent()};
  std::map<uint64_t, std::string> values_;  // of keys that have other ones than the rest
  std::unique_ptr<LogContext> context_;
  std::unique_ptr<LogWriter> writer_;
  std::vector<BucketState> states_;
  bool readable_ = false;
};

TEST_F(PowerRecoveryTest, WhatVerifiesIsSyncedAndTheCountsSaySo) {
  MakeStore(263);
  Open();
  ASSERT_EQ(states_[0].synced_watermark, 0u);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, 263u);
  EXPECT_EQ(states_[0].synced_watermark, 263u);
  EXPECT_EQ(states_[0].logged_value_watermark, 260u);
  EXPECT_EQ(states_[0].logged_key_watermark, 256u);
  std::vector<BucketState> found;
  ASSERT_TRUE(context_->staging.ReadCounts(&found).ok());
  for (const BucketState& state : found) EXPECT_EQ(state.page_cache_id, kPageCache);
  EXPECT_EQ(found[0].record_count, 263u);
  EXPECT_EQ(found[0].synced_watermark, 263u);
}

TEST_F(PowerRecoveryTest, TheBucketEndsAtTheFirstRecordThatDoesNotVerify) {
  MakeStore(263);
  Open();
  OverwriteValue(7, std::string(kValueBytes, '\0'));
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, 7u);
  Region page;
  ASSERT_TRUE(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page).ok());
  ASSERT_TRUE(context_->files.slots.ReadKeys(0, 0, format::kPageEntries, page.data()).ok());
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(page.data());
  EXPECT_NE(entries[6].check, 0u);
  EXPECT_EQ(entries[7].check, 0u) << "what lies behind the end is unreadable";
}

// Entries have the whole hashes of their values.
TEST_F(PowerRecoveryTest, AnotherValueOfTheSameIndexBitsDoesNotVerify) {
  const CollidingValues values;
  values_[7] = values.first;
  MakeStore(263);
  Open();
  OverwriteValue(7, values.second);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, 7u);
}

TEST_F(PowerRecoveryTest, DoneAgainItGivesTheSame) {
  MakeStore(263);
  Open();
  const std::vector<BucketState> before = states_;
  ASSERT_TRUE(Run().ok());
  const std::vector<BucketState> after = states_;
  // As a recovery that was killed before the counts were written leaves it.
  states_ = before;
  ASSERT_TRUE(Run().ok());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(states_[i].record_count, after[i].record_count);
    EXPECT_EQ(states_[i].synced_watermark, after[i].synced_watermark);
    EXPECT_EQ(states_[i].logged_key_watermark, after[i].logged_key_watermark);
  }
}

TEST_F(PowerRecoveryTest, AStoreThatCannotBeWrittenToIsReadableWhenAllIsInPlace) {
  MakeStore(263);
  Open();
  FailingCalls failing(CallKind::kPwrite, "/key_00", EIO);
  const ScopedHook hook(&failing);
  EXPECT_EQ(Run().code(), Code::kIOError);
  EXPECT_TRUE(readable_);
  EXPECT_EQ(states_[0].synced_watermark, 0u) << "nothing is promised";
  // Record 261 is staged alone.
  const std::string zeros(kValueBytes, '\0');
  const uint32_t place = PlaceInWord(states_[0].value_places, 261 / 4);
  Overwrite(dir_.Join(format::kStagingValuesName), zeros.data(), zeros.size(),
            context_->geometry().ValuePlaceOffset(0, place) + 261 % 4 * kValueBytes);
  EXPECT_EQ(Run().code(), Code::kIOError);
  EXPECT_FALSE(readable_);
}

// Rows: bucket 0 has runs in the rows 0 and 1. Records of run 0 were moved to a row behind.
class PowerRecoveryOfRowsTest : public PowerRecoveryTest {
 protected:
  static constexpr uint64_t kRow = 256;
  static constexpr uint64_t kEnd = kRow + 80;

  // Moves the first `count` records of the bucket as if it had `number` records then. The row has
  // `row_seal`.
  void MakeMoved(uint64_t number, uint32_t count, uint64_t row_seal = kSeal) {
    MakeStore(kEnd);
    StoreFiles files;
    ASSERT_NO_FATAL_FAILURE(OpenWithRows(TinyLogOptions(), dir_.path(), &files));
    SlotTable table(files.identity.geometry);
    table.BeginRows(kEnd);
    RowImage image;
    ASSERT_NO_FATAL_FAILURE(ReadRowImage(files, 0, 0, &image));
    const EntryCodec codec(files.identity.seed_id(), 0);
    auto* const entries = reinterpret_cast<format::KeyEntry*>(image.keys.data());
    for (uint32_t i = 0; i < kRow; ++i) {
      KeyRecord record;
      ASSERT_TRUE(table.Decode(codec, entries[i], i, &record));
      entries[i] = SlotTable::EncodeMoved(codec, record, kMovedRow * kRow + i, kSeal);
      if (i >= count) entries[i] = format::KeyEntry();
    }
    ASSERT_NO_FATAL_FAILURE(WriteRowImage(files, 0, kMovedRow, image));
    table.SetRow(kMovedRow, {.kind = format::RowKind::kMoving,
                             .held = SlotBits::First(count),
                             .horizon = number,
                             .seal = row_seal});
    ASSERT_TRUE(WriteTable(files, 0, table).ok());
  }
  Row RowOf(uint32_t index) const {
    const std::vector<Row>& rows = states_[0].table.rows();
    return index < rows.size() ? rows[index] : Row();
  }
  void ExpectFileHasTheTable() {
    BucketRows found{.table = {}, .damaged = true};
    ASSERT_TRUE(ReadRows(context_->files, 0, {&found, 1}).ok());
    EXPECT_FALSE(found.damaged);
    EXPECT_EQ(found.table.rows(), states_[0].table.rows());
  }
  void Zero(uint64_t slot) { OverwriteValue(slot, std::string(kValueBytes, '\0')); }

  static constexpr uint32_t kMovedRow = 2;
  static constexpr uint64_t kSeal = 4711;
};

TEST_F(PowerRecoveryOfRowsTest, MovedRecordsThatVerifyAreKept) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kEnd - 1, 20));
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kEnd);
  const Row kept = {.kind = format::RowKind::kUsed,
                    .held = SlotBits::First(20),
                    .horizon = kEnd - 1,
                    .seal = kSeal};
  EXPECT_EQ(RowOf(kMovedRow), kept);
  EXPECT_EQ(states_[0].table.births(), 0U) << "the era goes on";
  ExpectFileHasTheTable();
}

// Its entries go on to be checked with the id of the store that it was cloned from.
TEST_F(PowerRecoveryOfRowsTest, MovedRecordsOfACloneAreKept) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kEnd - 1, 20));
  {
    StoreFiles files;
    ASSERT_NO_FATAL_FAILURE(OpenWithRows(TinyLogOptions(), dir_.path(), &files));
    StoreIdentity identity = files.identity;
    identity.other_seed_id = identity.store_id;
    identity.store_id ^= 1;
    ASSERT_TRUE(WriteManifest(files.directory.get(), identity, 0644).ok());
  }
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kEnd);
  EXPECT_EQ(RowOf(kMovedRow).kind, format::RowKind::kUsed);
}

TEST_F(PowerRecoveryOfRowsTest, OneMovedRecordThatIsLostTakesTheRow) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kEnd - 1, 20));
  Open();
  Zero(kMovedRow * kRow + 19);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kEnd) << "they are where they were moved from";
  EXPECT_TRUE(RowOf(kMovedRow).free());
  EXPECT_FALSE(SlotTable::IsOneEra(RowOf(kMovedRow).birth, 0));
  ExpectFileHasTheTable();
}

TEST_F(PowerRecoveryOfRowsTest, AnotherMovedValueOfTheSameIndexBitsTakesTheRow) {
  const CollidingValues values;
  values_[19] = values.first;
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kEnd - 1, 20));
  Open();
  OverwriteValue(kMovedRow * kRow + 19, values.second);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kEnd);
  EXPECT_TRUE(RowOf(kMovedRow).free());
}

// The records of the row were there before, and others were to be moved to it.
TEST_F(PowerRecoveryOfRowsTest, WhatAMovingRowHeldBeforeIsNotItsRecords) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kEnd - 1, 20, kSeal + 1));
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(RowOf(kMovedRow).free());
  EXPECT_FALSE(SlotTable::IsOneEra(RowOf(kMovedRow).birth, 0));
}

// A run whose records were appended there.
TEST_F(PowerRecoveryOfRowsTest, ARunThatAMovingRowHeldBeforeIsNotItsRecords) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kEnd - 1, 20));
  {
    StoreFiles files;
    ASSERT_NO_FATAL_FAILURE(OpenWithRows(TinyLogOptions(), dir_.path(), &files));
    RowImage run;
    ASSERT_NO_FATAL_FAILURE(ReadRowImage(files, 0, 0, &run));
    ASSERT_NO_FATAL_FAILURE(WriteRowImage(files, 0, kMovedRow, run));
  }
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(RowOf(kMovedRow).free());
}

// What is written next gets the numbers of records that were cut off.
TEST_F(PowerRecoveryOfRowsTest, MovesOfLaterThanTheEndAreUndone) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kEnd - 1, 20));
  Open();
  Zero(kRow + 30);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kRow + 30);
  EXPECT_TRUE(RowOf(kMovedRow).free());
  ExpectFileHasTheTable();
}

TEST_F(PowerRecoveryOfRowsTest, MovesUpToTheEndAreKept) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kRow + 30, 20));
  Open();
  Zero(kRow + 30);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kRow + 30);
  EXPECT_EQ(RowOf(kMovedRow).kind, format::RowKind::kUsed);
}

TEST_F(PowerRecoveryOfRowsTest, RunsBehindTheEndAreFree) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kRow - 100, 20));
  Open();
  Zero(kRow - 50);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kRow - 50);
  EXPECT_TRUE(RowOf(0).has_run());
  EXPECT_EQ(RowOf(1), Row());
  EXPECT_EQ(RowOf(kMovedRow).kind, format::RowKind::kUsed);
  ExpectFileHasTheTable();
}

// Whole groups of the run lay in the row alone. What is staged gets another row.
TEST_F(PowerRecoveryOfRowsTest, ARunWhoseRowIsLostEndsTheBucketUnlessItIsStaged) {
  ASSERT_NO_FATAL_FAILURE(MakeMoved(kRow, 20));
  Open();
  states_[0].table.SetRow(1, Row());
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kRow);
  EXPECT_EQ(RowOf(1), Row());
  ExpectFileHasTheTable();
}

TEST_F(PowerRecoveryOfRowsTest, StagedRecordsOfALostRowGetARow) {
  MakeStore(kRow + 3);
  {
    StoreFiles files;
    ASSERT_NO_FATAL_FAILURE(OpenWithRows(TinyLogOptions(), dir_.path(), &files));
    SlotTable table(files.identity.geometry);
    table.BeginRows(kRow + 3);
    table.SetRow(1, Row());
    ASSERT_TRUE(WriteTable(files, 0, table).ok());
  }
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, kRow + 3);
  Row given = RunRow(kRow, kRow);
  given.birth = 1;
  EXPECT_EQ(RowOf(1), given);
  ExpectFileHasTheTable();
}

// A head that reaches a row of zeros would be damage.
TEST_F(PowerRecoveryOfRowsTest, ANewRowIsDurableBeforeTheHeadReachesIt) {
  MakeStore(kRow + 3);
  StoreFiles files;
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(TinyLogOptions(), dir_.path(), &files));
  SlotTable table(files.identity.geometry);
  table.BeginRows(kRow);
  ASSERT_TRUE(WriteTable(files, 0, table).ok());
  files = StoreFiles();
  Open();
  context_->has_row_file.store(true);
  ChangeOrder order;
  RunWatched(&order);
  // Writes and flushes. The first three come before the change.
  std::string kinds;
  for (const std::string& change : order.changes) {
    if (change.ends_with(format::kRowsName)) kinds += change.front();
  }
  EXPECT_EQ(kinds, "wffwfwf");
  EXPECT_EQ(RowOf(1).number, kRow);
  ExpectFileHasTheTable();
}

// A loss of power may keep the row's word and lose the records: nothing looks at them again.
TEST_F(PowerRecoveryOfRowsTest, MovedRowsAreMarkedWhenTheLogsAreDurable) {
  MakeMoved(kEnd, 10);
  Open();
  // As an opening of a store with rows has it.
  context_->has_row_file.store(true);
  ChangeOrder order;
  RunWatched(&order);
  EXPECT_EQ(RowOf(kMovedRow).kind, format::RowKind::kUsed);
  // The rows are written as they were found before the doubt is marked.
  const auto doubt = std::find(order.changes.begin(), order.changes.end(), "flush staging_counts");
  order.changes.erase(order.changes.begin(), doubt);
  const size_t marked = order.First("write key_rows");
  ASSERT_LT(marked, order.changes.size());
  for (const char* log : {"key_00", "key_01", "value_00", "value_01"}) {
    EXPECT_LT(order.First(std::string("flush ") + log), marked) << log;
  }
  // The rows and then the heads.
  for (const char* change : {"write key_rows", "flush key_rows"}) {
    EXPECT_EQ(std::count(order.changes.begin() + static_cast<ptrdiff_t>(marked),
                         order.changes.end(), change),
              2);
  }
}

// The journal or the rows may be all that shows the doubt. So its mark comes first and goes last.
TEST_F(PowerRecoveryTest, TheDoubtIsMarkedFirstAndEndsLast) {
  MakeStore(263);
  Open();
  ChangeOrder order;
  RunWatched(&order);
  const std::string counts = format::kStagingCountsName;
  size_t first = 0;
  while (order.changes[first].ends_with(format::kSegmentTableName)) ++first;
  while (order.changes[first] == "write " + counts) ++first;
  EXPECT_EQ(order.changes[first], "flush " + counts);
  ASSERT_GT(order.changes.size(), 6u);
  const std::vector<std::string> last(order.changes.end() - 4, order.changes.end());
  EXPECT_EQ(last, (std::vector<std::string>{"write " + counts, "flush " + counts, "write " + counts,
                                            "flush " + counts}));
}

TEST_F(PowerRecoveryTest, OnAFullDiskTheUserComesFirst) {
  MakeStore(263);
  Open();
  FailingCalls failing(CallKind::kPwrite, "/key_00", ENOSPC);
  const ScopedHook hook(&failing);
  EXPECT_EQ(Run().code(), Code::kFull);
  EXPECT_FALSE(readable_);
}

}  // namespace
}  // namespace engine_race::test

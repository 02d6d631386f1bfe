// What Open and the first writes make of staging and logs that a lost page cache has left, while
// the counts still say that nothing happened.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/log/page_cache.h"
#include "test/faults/call_watch.h"
#include "test/log/entry_test_util.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {
namespace {

class LostCacheTest : public testing::Test {
 protected:
  // Records 0 to `count` of bucket 0, synced where `synced` says so, and the store closed.
  void Make(uint64_t synced, uint64_t count, SyncMode mode = SyncMode::kNone) {
    const auto log = Open(mode);
    store_id_ = log->store_id();
    AppendMany(log.get(), 0, synced);
    if (synced != 0) {
      ASSERT_TRUE(log->Sync().ok());
    }
    AppendMany(log.get(), synced, count);
  }
  std::unique_ptr<BucketLog> Open(SyncMode mode = SyncMode::kNone) {
    return OpenLog(TinyLogOptions(mode), dir_.path());
  }
  void Set(format::WordKind kind, uint64_t payload, uint32_t bucket = 0) {
    SetWord(dir_.path(), store_id_, bucket, kind, payload);
  }
  void ZeroValues(uint64_t slot, uint64_t count) {
    const std::string zeros(count * kValueBytes, '\0');
    Overwrite(dir_.Join("value_00"), zeros.data(), zeros.size(), slot * kValueBytes);
  }

  const TempDir dir_;
  uint64_t store_id_ = 0;
};

TEST_F(LostCacheTest, TheJournalShowsThatTheCountsAreOld) {
  Make(0, 10, SyncMode::kEveryWrite);
  Set(format::WordKind::kRecords, 6);
  Set(format::WordKind::kLoggedValues, 4);
  const auto log = Open();
  ExpectHoldsExactly(log.get(), 10);
  EXPECT_EQ(log->SyncedWatermark(0), 10u);
}

TEST_F(LostCacheTest, TheJournalBringsBackWhatIsNotWhereTheCountsSay) {
  for (const bool in_log : {false, true}) {
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    Make(0, 10, SyncMode::kGroup);
    if (in_log) {
      ZeroValues(5, 1);
    } else {
      LoseStaging(dir_.path());
    }
    const auto log = Open();
    ExpectHoldsExactly(log.get(), 10);
  }
}

// Fails every write to the staged keys. Recovery erases them once the journal has gone.
class FailingStaging : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPwrite) return call->Proceed();
    if (PathOf(*call).find("staging_keys") == std::string::npos) return call->Proceed();
    ++fail_count_;
    errno = EIO;
    return -1;
  }
  int fail_count() const { return fail_count_; }

 private:
  std::atomic<int> fail_count_{0};
};

TEST_F(LostCacheTest, ARecoveryThatEndsAfterTheJournalHasGoneIsDoneAgain) {
  Make(0, 10, SyncMode::kEveryWrite);
  Set(format::WordKind::kRecords, 6);
  Set(format::WordKind::kLoggedValues, 4);
  {
    FailingStaging failing;
    const ScopedHook hook(&failing);
    std::unique_ptr<BucketLog> log;
    EXPECT_FALSE(BucketLog::Open(TinyLogOptions(SyncMode::kNone), dir_.path(), &log).ok());
    EXPECT_GT(failing.fail_count(), 0);
  }
  ExpectHoldsExactly(Open().get(), 10);
}

// The opening has adopted the buckets before it finds that one has lost its staging. Its recovery
// then ends in the middle. What it has adopted is not synced: the files have changed since.
TEST_F(LostCacheTest, AnOpeningThatFailsSyncsNothing) {
  Make(0, 10);
  {
    const auto log = Open();
    ASSERT_TRUE(log->Append(kKeyStep, ValueOf(1, 1).data()).ok());
    const Geometry& geometry = log->geometry();
    LoseBytes(dir_.Join(format::kStagingKeysName), geometry.KeyPlaceOffset(/*bucket=*/1, 0),
              geometry.key_group_bytes);
  }
  {
    CallWatch watch([](SystemCall* call) {
      const bool is_line = call->kind == CallKind::kPwrite &&
                           call->size == sizeof(format::BucketCounts) &&
                           PathOf(*call).ends_with(format::kStagingCountsName);
      return is_line ? Refuse(EIO) : call->Proceed();
    });
    const ScopedHook hook(&watch);
    Options options = TinyLogOptions(SyncMode::kGroup);
    options.sync_on_close = true;
    std::unique_ptr<BucketLog> log;
    EXPECT_EQ(BucketLog::Open(options, dir_.path(), &log).code(), Code::kIOError);
  }
  ExpectHoldsExactly(Open().get(), 10);
}

TEST_F(LostCacheTest, OneBucketWithoutAPageCachePutsAllInDoubt) {
  Make(5, 7);
  LoseStaging(dir_.path());
  Set(format::WordKind::kPageCache, 0, /*bucket=*/3);
  const auto log = Open();
  ExpectHoldsExactly(log.get(), 5);
  AppendMany(log.get(), 5, 30);
  ExpectHoldsExactly(log.get(), 30);
}

// As if killed between the group's write and its mark. Of its records all are synced, or the first
// half.
TEST_F(LostCacheTest, AFullGroupIsNotWrittenOverTheLogUnverified) {
  for (const uint64_t synced_count : {8, 6}) {
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    Make(synced_count, 8);
    Set(format::WordKind::kLoggedValues, 4);
    LoseStaging(dir_.path());
    const auto log = Open();
    ExpectHoldsExactly(log.get(), synced_count);
    AppendMany(log.get(), synced_count, 20);
    ExpectHoldsExactly(log.get(), 20);
  }
}

TEST_F(LostCacheTest, SyncedRecordsOfAnUnfinishedGroupAreReadFromTheLog) {
  Make(6, 6);
  LoseStaging(dir_.path());
  const auto log = Open();
  ExpectHoldsExactly(log.get(), 6);
}

TEST_F(LostCacheTest, TheFirstWriteToABucketFindsStagingLost) {
  Make(6, 7);
  LoseStaging(dir_.path());
  {
    const auto log = Open();
    EXPECT_EQ(log->Append(7, ValueOf(7, 1).data()).code(), Code::kCorruption);
    EXPECT_EQ(log->Append(7, ValueOf(7, 1).data()).code(), Code::kCorruption);
    EXPECT_EQ(log->Sync().code(), Code::kCorruption);
    // Of another bucket, which had nothing to lose.
    EXPECT_TRUE(log->Append(uint64_t{1} << 62, ValueOf(1, 2).data()).ok());
  }
  const auto log = Open();
  EXPECT_EQ(ReadSlot(*log, 1, 0), ValueOf(1, 2));
  ExpectHoldsExactly(log.get(), 6);
  AppendMany(log.get(), 6, 20);
  ExpectHoldsExactly(log.get(), 20);
}

// Entries have the whole hashes of their values.
TEST_F(LostCacheTest, TheFirstWriteToABucketFindsAnotherStagedValueOfTheSameIndexBits) {
  const CollidingValues values;
  uint64_t offset = 0;
  {
    const auto log = Open();
    ASSERT_TRUE(log->Append(0, values.first.data()).ok());
    offset = log->geometry().ValuePlaceOffset(0, 0);
  }
  Overwrite(dir_.Join(format::kStagingValuesName), values.second.data(), values.second.size(),
            offset);
  EXPECT_EQ(Open()->Append(1, ValueOf(1, 1).data()).code(), Code::kCorruption);
}

TEST_F(LostCacheTest, SyncFindsStagingLost) {
  Make(6, 7);
  LoseStaging(dir_.path());
  {
    const auto log = Open();
    EXPECT_EQ(log->Sync().code(), Code::kCorruption);
    EXPECT_EQ(log->Sync().code(), Code::kCorruption);
  }
  ExpectHoldsExactly(Open().get(), 6);
}

// Such an opening begins with a Sync of what it finds.
TEST_F(LostCacheTest, AnOpeningInADurableModeVerifiesAllThatItSyncs) {
  Make(6, 7);
  LoseStaging(dir_.path());
  const auto log = Open(SyncMode::kGroup);
  ExpectHoldsExactly(log.get(), 6);
  AppendMany(log.get(), 6, 20);
  ExpectHoldsExactly(log.get(), 20);
}

// The doubt comes when the tables of rows are in use already.
TEST_F(LostCacheTest, ADoubtThatIsFoundLateLeavesTheRows) {
  constexpr uint64_t kSynced = 512;
  {
    const auto log = Open();
    ASSERT_EQ(2 * log->geometry().row_records(), kSynced);
    AppendMany(log.get(), 0, kSynced);
    ASSERT_TRUE(log->Sync().ok());
    uint32_t moved_row = 0;
    ASSERT_NO_FATAL_FAILURE(MoveRow(log.get(), 0, /*from_row=*/0, &moved_row));
    ASSERT_TRUE(log->mover().Settle().ok());
    AppendMany(log.get(), kSynced, kSynced + 1);
  }
  LoseStaging(dir_.path());
  const auto log = Open(SyncMode::kGroup);
  ASSERT_NE(log, nullptr);
  const std::vector<KeyRecord> records = RecordsOf(log.get(), 0);
  EXPECT_EQ(records.size(), kSynced);
  for (const KeyRecord& record : records) {
    EXPECT_LT(record.key, kSynced);
    EXPECT_EQ(ReadSlot(*log, 0, record.slot), ValueOf(record.key, 1)) << record.key;
  }
}

// Fails flushes, writes or reads of the logs, and counts the writes that come after.
class FailingLogs : public SystemCallHook {
 public:
  explicit FailingLogs(CallKind kind) : kind_(kind) {}

  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPwrite && call->kind != kind_) return call->Proceed();
    const std::string path = PathOf(*call);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!name.starts_with("value_") && !name.starts_with("key_")) return call->Proceed();
    if (call->kind == CallKind::kPwrite && fail_count_ > 0) ++writes_after_failure_;
    if (call->kind != kind_) return call->Proceed();
    ++fail_count_;
    errno = EIO;
    return -1;
  }
  int fail_count() const { return fail_count_; }
  int writes_after_failure() const { return writes_after_failure_; }

 private:
  const CallKind kind_;
  std::atomic<int> fail_count_{0};
  std::atomic<int> writes_after_failure_{0};
};

TEST_F(LostCacheTest, ALatchedStoreWritesNoFullGroups) {
  Make(0, 8);
  Set(format::WordKind::kLoggedValues, 4);
  Set(format::WordKind::kPageCache, 12345);
  FailingLogs failing(CallKind::kFdatasync);
  const ScopedHook hook(&failing);
  const auto log = Open();
  ExpectHoldsExactly(log.get(), 8);
  EXPECT_GT(failing.fail_count(), 0);
  EXPECT_EQ(failing.writes_after_failure(), 0);
  EXPECT_EQ(log->Append(8, ValueOf(8, 1).data()).code(), Code::kIOError);
}

TEST_F(LostCacheTest, AStoreOpensForReadingAloneOnlyWhenAllIsWhereReadersLook) {
  Make(0, 8);
  Set(format::WordKind::kPageCache, 12345);
  {
    // Everything is in place, though nothing can be written.
    FailingLogs failing(CallKind::kFdatasync);
    const ScopedHook hook(&failing);
    ExpectHoldsExactly(Open().get(), 8);
  }
  // The log has lost what staging still holds, and readers look in the log.
  ZeroValues(4, 4);
  {
    FailingLogs failing(CallKind::kPwrite);
    const ScopedHook hook(&failing);
    std::unique_ptr<BucketLog> log;
    EXPECT_EQ(BucketLog::Open(TinyLogOptions(SyncMode::kNone), dir_.path(), &log).code(),
              Code::kIOError);
    EXPECT_GT(failing.fail_count(), 0);
  }
  ExpectHoldsExactly(Open().get(), 8);
}

// Without that record nobody can tell whether the page cache was lost.
TEST_F(LostCacheTest, AJournaledRecordThatCannotBeReadLeavesTheStoreToReaders) {
  Make(0, 8, SyncMode::kGroup);
  {
    FailingLogs failing(CallKind::kPread);
    std::unique_ptr<BucketLog> log;
    {
      const ScopedHook hook(&failing);
      log = Open();
      EXPECT_GT(failing.fail_count(), 0);
    }
    ExpectHoldsExactly(log.get(), 8);
    EXPECT_EQ(log->Append(8, ValueOf(8, 1).data()).code(), Code::kIOError);
  }
  const auto log = Open();
  AppendMany(log.get(), 8, 9);
  ExpectHoldsExactly(log.get(), 9);
}

TEST_F(LostCacheTest, TheIdStaysTheSameWhileTheMachineRuns) {
  Make(0, 1);
  uint32_t first = 0;
  for (int i = 0; i < 3; ++i) {
    StoreFiles files;
    ASSERT_TRUE(OpenStoreFilesToRead(dir_.path(), &files).ok());
    const uint32_t id = PageCacheId(files);
    EXPECT_NE(id, 0u);
    if (i > 0) {
      EXPECT_EQ(id, first);
    }
    first = id;
  }
}

}  // namespace
}  // namespace engine_race::test

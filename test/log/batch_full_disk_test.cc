// Batches that are staged by pwrite on a disk that is full: refused before anything commits them.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>

#include "engine_race/log/batch_plan.h"
#include "engine_race/log/batch_writer.h"
#include "test/log/batch_test_util.h"

namespace engine_race::test {
namespace {

class BatchFullDiskTest : public ::testing::TestWithParam<SyncMode> {
 protected:
  BatchFullDiskTest() {
    options_.staging_mode = StagingMode::kWritten;
    options_.sync_mode = GetParam();
    options_.journal_bytes = kMinJournalBytes;
  }

  bool journaled() const { return GetParam() != SyncMode::kNone; }

  TempDir dir_;
  Options options_ = TinyLogOptions();
};

INSTANTIATE_TEST_SUITE_P(SyncModes, BatchFullDiskTest,
                         ::testing::Values(SyncMode::kNone, SyncMode::kEveryWrite,
                                           SyncMode::kGroup));

TEST_P(BatchFullDiskTest, StagingWithoutRoomRefusesAllOfItAndLetsItBeTriedAgain) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(1, 1)).ok());
    for (const char* name :
         {format::kStagingValuesName, format::kStagingKeysName, format::kStagingCountsName}) {
      FailingCalls full(CallKind::kPwrite, name, ENOSPC);
      const ScopedHook scope(&full);
      EXPECT_EQ(log->Write(BatchOverAll(3, 2)).code(), Code::kFull) << name;
      EXPECT_EQ(log->RecordCount(), 4u);
    }
    EXPECT_TRUE(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 3).data()).ok())
        << "a full disk does not end writing";
  }
  Content wanted = ContentOver(1, 1);
  wanted[KeyIn(0, 0)] = 3;
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
  EXPECT_TRUE(OpenLog(options_, dir_.path())->Write(BatchOverAll(3, 4)).ok());
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(3, 4));
}

TEST_P(BatchFullDiskTest, AJournalWithoutRoomRefusesAllOfIt) {
  if (!journaled()) return;
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(1, 1)).ok());
  {
    FailingCalls full(CallKind::kPwrite, format::kJournalName, ENOSPC);
    const ScopedHook scope(&full);
    const AppendStatus refused = log->Write(BatchOverAll(3, 2));
    EXPECT_EQ(refused.code(), Code::kFull);
    EXPECT_FALSE(refused.appended());
  }
  EXPECT_EQ(ContentOf(log.get()), ContentOver(1, 1));
  EXPECT_TRUE(log->Write(BatchOverAll(3, 3)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 3));
}

// A batch that the journal has is committed. In the other mode its intent is what commits it.
TEST_P(BatchFullDiskTest, AnIntentWithoutRoomRefusesWhatTheJournalDoesNotHave) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(1, 1)).ok());
    {
      FailingCalls full(CallKind::kPwrite, format::kBatchesName, ENOSPC);
      const ScopedHook scope(&full);
      EXPECT_EQ(log->Write(BatchOverAll(3, 2)).code(), journaled() ? Code::kOk : Code::kFull);
    }
    EXPECT_EQ(ContentOf(log.get()), journaled() ? ContentOver(3, 2) : ContentOver(1, 1));
    EXPECT_TRUE(log->Write(BatchOverAll(1, 3)).ok()) << "a full disk does not end writing";
  }
  Content wanted = journaled() ? ContentOver(3, 2) : Content();
  for (const auto& [key, version] : ContentOver(1, 3)) wanted[key] = version;
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
}

// Once the batch is committed it is acknowledged, also where its counts cannot be moved. That ends
// writing, and the next opening moves them.
TEST_P(BatchFullDiskTest, ACountThatCannotBeMovedLatchesAndIsMovedByTheNextOpening) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(1, 1)).ok());
    bool intends = false;
    CallWatch failing([&](SystemCall* call) {
      if (call->kind != CallKind::kPwrite) return call->Proceed();
      const std::string path = PathOf(*call);
      intends = intends || path.ends_with(format::kBatchesName);
      if (!intends || !path.ends_with(format::kStagingCountsName)) return call->Proceed();
      errno = ENOSPC;
      return -1L;
    });
    {
      const ScopedHook scope(&failing);
      EXPECT_TRUE(log->Write(BatchOverAll(3, 2)).ok());
    }
    EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 2));
    EXPECT_EQ(log->Write(BatchOverAll(3, 3)).code(), Code::kIOError);
    EXPECT_EQ(log->Append(1, ValueOf(1, 1).data()).code(), Code::kIOError);
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(3, 2));
}

// One count cannot be moved, and the words after it could be. No group is counted as logged then
// that has records which the counts lack: they would be damaged.
TEST_P(BatchFullDiskTest, ACountThatStaysBehindIsOvertakenByNoOtherWord) {
  for (const int failing_write : {1, 2, 3, 4}) {
    const TempDir dir;
    {
      const auto log = OpenLog(options_, dir.path());
      ASSERT_TRUE(log->Write(BatchOverAll(1, 1)).ok());
      bool intends = false;
      int write_count = 0;
      CallWatch failing([&](SystemCall* call) {
        if (call->kind != CallKind::kPwrite) return call->Proceed();
        const std::string path = PathOf(*call);
        intends = intends || path.ends_with(format::kBatchesName);
        if (!intends || !path.ends_with(format::kStagingCountsName)) return call->Proceed();
        if (++write_count != failing_write) return call->Proceed();
        errno = EIO;
        return -1L;
      });
      const ScopedHook scope(&failing);
      // Fills groups.
      EXPECT_TRUE(log->Write(BatchOverAll(10, 2)).ok());
      EXPECT_GE(write_count, failing_write);
      EXPECT_EQ(ContentOf(log.get()), ContentOver(10, 2));
      EXPECT_EQ(log->Append(1, ValueOf(1, 1).data()).code(), Code::kIOError);
    }
    EXPECT_EQ(ContentIn(dir.path(), options_), ContentOver(10, 2)) << failing_write;
  }
}

// A plan numbers records with 32 bits. More of them are refused before any is looked at.
TEST(BatchLimitTest, RecordsThatCannotBeNumberedAreRefused) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  BatchWriter batches(&parts.context, &parts.groups);
  BatchPlan plan;
  const WriteBatch::Record record;
  EXPECT_EQ(batches.Prepare({&record, uint64_t{1} << 32}, &plan).code(), Code::kInvalidArgument);
  EXPECT_TRUE(batches.Prepare({&record, 1}, &plan).ok());
}

}  // namespace
}  // namespace engine_race::test

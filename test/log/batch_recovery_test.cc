// Batches and openings that doubt the counts, or find them damaged: each batch is there as a whole
// or not at all.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "engine_race/copies/copies.h"
#include "test/faults/fault_plan.h"
#include "test/log/large_batch_test_util.h"

namespace engine_race::test {
namespace {

class BatchRecoveryTest : public ::testing::TestWithParam<StagingMode> {
 protected:
  BatchRecoveryTest() { options_.staging_mode = GetParam(); }

  // Expects `wanted`, of `record_count` records, in a store that is in doubt, and twice in a row.
  void ExpectInDoubt(const std::string& dir, const Content& wanted, uint64_t record_count) {
    SetWord(dir, store_id_, 3, format::WordKind::kPageCache, 0);
    VerifyReport report;
    EXPECT_TRUE(VerifyStore(dir, &report, {}).ok());
    EXPECT_EQ(report.record_count, record_count);
    EXPECT_EQ(ContentIn(dir, options_), wanted);
    EXPECT_EQ(ContentIn(dir, options_), wanted);
  }

  // Writes a batch of two records for each bucket, and then one of five. Takes the store as a kill
  // leaves it when the first bucket has counted the second batch.
  void DieBetweenCounts(KillImages* images) {
    const auto log = OpenLog(options_, dir_.path());
    store_id_ = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(2, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (images->paths().empty()) images->Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(5, 2)).ok());
    Detach(log.get());
  }

  const TempDir dir_;
  Options options_ = TinyLogOptions();
  uint64_t store_id_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Staging, BatchRecoveryTest,
                         ::testing::Values(StagingMode::kAuto, StagingMode::kWritten));

// As if killed when the batch was staged in all buckets, and not committed.
TEST_P(BatchRecoveryTest, WhatWasStagedAndNeverCountedIsNotThere) {
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id_ = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(2, 1)).ok());
    ASSERT_TRUE(log->Write(BatchOverAll(1, 2)).ok());
  }
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    SetWord(dir_.path(), store_id_, bucket, format::WordKind::kRecords, 2);
  }
  ExpectInDoubt(dir_.path(), ContentOver(2, 1), 8);
}

// A full disk refuses the batch when two buckets have its records staged.
TEST_P(BatchRecoveryTest, ARefusedBatchIsNotBroughtBackInPart) {
  options_.staging_mode = StagingMode::kWritten;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id_ = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(2, 1)).ok());
    int staged_count = 0;
    CallWatch watch([&](SystemCall* call) -> long {
      if (call->kind != CallKind::kPwrite || !PathOf(*call).ends_with(format::kStagingValuesName) ||
          ++staged_count <= 2) {
        return call->Proceed();
      }
      errno = ENOSPC;
      return -1;
    });
    const ScopedHook scope(&watch);
    EXPECT_EQ(log->Write(BatchOverAll(1, 2)).code(), Code::kFull);
    EXPECT_GT(staged_count, 2);
  }
  ExpectInDoubt(dir_.path(), ContentOver(2, 1), 8);
}

TEST_P(BatchRecoveryTest, ACommittedBatchIsThereAsAWhole) {
  KillImages images(dir_.path());
  ASSERT_NO_FATAL_FAILURE(DieBetweenCounts(&images));
  ASSERT_EQ(images.paths().size(), 1u);
  ExpectInDoubt(images.paths()[0], ContentOver(5, 2), 28);
}

// The machine wrote everything back and was started anew: a kill alone tears no batch.
TEST_P(BatchRecoveryTest, ACommittedBatchOutlivesARestartAsAWhole) {
  const std::string boot_id = dir_.path() + ".boot_id";
  KillImages images(dir_.path());
  {
    std::ofstream(boot_id) << "3f1c0a52-9d0e-4d6e-8f5b-0b6f1c2d3e4f\n";
    BootIdHook first_boot(boot_id);
    const ScopedHook scope(&first_boot);
    ASSERT_NO_FATAL_FAILURE(DieBetweenCounts(&images));
  }
  std::filesystem::remove(boot_id);
  ASSERT_EQ(images.paths().size(), 1u);
  EXPECT_EQ(ContentIn(images.paths()[0], options_), ContentOver(5, 2));
  EXPECT_EQ(ContentIn(images.paths()[0], options_), ContentOver(5, 2));
}

// A batch is durable in the journal, and its process is killed before anything of it is staged. The
// journal alone tells of it, and is gone when recovery writes the counts.
TEST_P(BatchRecoveryTest, CountsThatCannotBeWrittenLeaveADurableBatchToTheNextOpening) {
  options_.sync_mode = SyncMode::kGroup;
  options_.journal_bytes = kMinJournalBytes;
  KillImages killed(dir_.path());
  {
    const auto log = OpenLog(options_, dir_.path());
    for (uint64_t n = 10; n < 13; ++n) {
      ASSERT_TRUE(log->Append(KeyIn(2, n), ValueOf(KeyIn(2, n), 1).data()).ok());
    }
    CallWatch watch([&](SystemCall* call) {
      const long result = call->Proceed();
      if (call->kind == CallKind::kFdatasync && PathOf(*call).ends_with(format::kJournalName)) {
        killed.Take();
      }
      return result;
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(1, 2)).ok());
  }
  ASSERT_EQ(killed.paths().size(), 1u);
  Content wanted = ContentOver(1, 2);
  for (uint64_t n = 10; n < 13; ++n) wanted[KeyIn(2, n)] = 1;
  Options reopened = options_;
  reopened.sync_mode = SyncMode::kNone;
  bool has_failed = true;
  for (int nth = 1; has_failed; ++nth) {
    SCOPED_TRACE(nth);
    TempDir parent;
    const std::string dir = parent.Join("store");
    std::filesystem::copy(killed.paths()[0], dir, std::filesystem::copy_options::recursive);
    std::mutex mutex;
    int write_count = 0;
    CallWatch watch([&](SystemCall* call) -> long {
      const std::lock_guard<std::mutex> lock(mutex);
      if (call->kind != CallKind::kPwrite || !PathOf(*call).ends_with(format::kStagingCountsName) ||
          ++write_count < nth) {
        return call->Proceed();
      }
      // For as long as the recovery tries: it may use the reserve of space.
      errno = ENOSPC;
      return -1;
    });
    {
      const ScopedHook scope(&watch);
      std::unique_ptr<BucketLog> log;
      const Status opened = BucketLog::Open(reopened, dir, &log);
      has_failed = write_count >= nth;
      EXPECT_EQ(opened.code(), has_failed ? Code::kFull : Code::kOk) << opened.ToString();
    }
    EXPECT_EQ(ContentIn(dir, reopened), wanted);
    EXPECT_TRUE(has_failed || nth > 4) << "a line for each bucket";
  }
}

// A large batch is interrupted when the counts of its second bucket move, and those of its last one
// are damaged. Nobody can say how far that bucket has come. It answers kCorruption, and the other
// buckets get their parts of the batch.
TEST_P(BatchRecoveryTest, ABucketWithDamagedCountsIsLeftOutOfALargeBatch) {
  KillImages images(dir_.path());
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() == kTooMany + kTooMany / 2) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  const std::string& image = images.paths()[0];
  const uint64_t damage = 0x1234;
  Overwrite(image + "/" + format::kStagingCountsName, &damage, sizeof(damage),
            3 * sizeof(format::BucketCounts));
  for (int opening = 0; opening < 2; ++opening) {
    // Also before an opening has moved the counts.
    VerifyReport report;
    EXPECT_EQ(VerifyStore(image, &report, {}).code(), Code::kCorruption);
    EXPECT_EQ(report.bad_count, 1u);
    EXPECT_EQ(report.record_count, 3 * (3 + kTooMany));
    const std::string copy = image + "_copy" + std::to_string(opening);
    EXPECT_EQ(CopyStore(options_, image, copy, &report, {}).code(), Code::kCorruption);
    const auto log = OpenLog(options_, image);
    ASSERT_NE(log, nullptr);
    EXPECT_TRUE(log->BucketDamaged(3));
    for (uint32_t bucket = 0; bucket < 3; ++bucket) {
      const std::vector<KeyRecord> records = RecordsOf(log.get(), bucket);
      ASSERT_EQ(records.size(), 3 + kTooMany) << bucket;
      for (uint64_t n = 0; n < kTooMany; ++n) {
        EXPECT_EQ(ReadSlot(*log, bucket, records[3 + n].slot), ValueOf(KeyIn(bucket, n), 2));
      }
    }
    EXPECT_EQ(log->Append(KeyIn(3, 0), ValueOf(KeyIn(3, 0), 3).data()).code(), Code::kCorruption);
  }
}

}  // namespace
}  // namespace engine_race::test

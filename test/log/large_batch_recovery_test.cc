// What openings find of large batches that a kill or a loss of power has interrupted.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/copies/copies.h"
#include "test/log/large_batch_test_util.h"

namespace engine_race::test {
namespace {

class LargeBatchRecoveryTest : public LargeBatchTest {};

INSTANTIATE_TEST_SUITE_P(Modes, LargeBatchRecoveryTest,
                         ::testing::Values(SyncMode::kNone, SyncMode::kGroup));

// At each change of a file, and while the index is told of its records.
TEST_P(LargeBatchRecoveryTest, KilledAnywhereItIsThereAsAWholeOrNotAtAll) {
  KillImages images(dir_.path());
  size_t begun = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() % 50 == 1) images.Take();
    };
    std::mutex mutex;
    uint64_t call_count = 0;
    CallWatch watch([&](SystemCall* call) {
      if (call->kind != CallKind::kPwrite) return call->Proceed();
      const std::lock_guard<std::mutex> lock(mutex);
      const bool commits = CommitsLargeBatch(*call);
      // The records come before that.
      if (commits || (begun == 0 && call_count++ % 5 == 0)) images.Take();
      const long result = call->Proceed();
      if (commits) begun = images.paths().size();
      return result;
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    EXPECT_EQ(listener.begun, 1);
    EXPECT_EQ(listener.ended, 1);
    Detach(log.get());
  }
  EXPECT_GT(begun, 2u);
  EXPECT_GT(images.paths().size(), begun + 3);
  for (size_t i = 0; i < images.paths().size(); ++i) {
    const std::string& image = images.paths()[i];
    VerifyReport report;
    EXPECT_TRUE(VerifyStore(image, &report, {}).ok());
    EXPECT_EQ(report.record_count, i < begun ? 12 : 12 + 4 * kTooMany);
    const Content wanted = i < begun ? ContentOver(3, 1) : ContentOver(kTooMany, 2);
    // Copies take long: the last images, of a committed batch.
    if (i + 3 >= images.paths().size()) {
      const std::string copy = image + "_copy";
      ASSERT_TRUE(CopyStore(options_, image, copy, &report, {}).ok());
      EXPECT_EQ(ContentIn(copy, options_), wanted) << i;
    }
    EXPECT_EQ(ContentIn(image, options_), wanted) << i;
    EXPECT_TRUE(VerifyStore(image, &report, {}).ok());
    EXPECT_EQ(ContentIn(image, options_), wanted) << i;
  }
}

// The openings after that fail to make the counts durable, to begin with.
TEST_P(LargeBatchRecoveryTest, KilledAgainAndAgainItStaysCommitted) {
  KillImages images(dir_.path());
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() % kTooMany == 30) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 4u);
  for (size_t i = 0; i < images.paths().size(); ++i) {
    const std::string& image = images.paths()[i];
    if (i % 2 == 1) LosePower(image, store_id);
    {
      // Also where all counts have moved.
      FailingCalls broken(CallKind::kFdatasync, format::kStagingCountsName, EIO);
      const ScopedHook scope(&broken);
      std::unique_ptr<BucketLog> log;
      EXPECT_FALSE(BucketLog::Open(options_, image, &log).ok());
      EXPECT_GT(broken.count, 0);
    }
    // The intent outlives that, whatever the device has of the counts.
    LosePower(image, store_id);
    const auto log = OpenLog(options_, image);
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 2));
    EXPECT_EQ(log->RecordCount(), 4 * (3 + kTooMany));
  }
}

// A kill left the intent in the page cache alone. A loss of power in the opening after that must
// find it, or else all counts as they were.
TEST_P(LargeBatchRecoveryTest, AnOpeningMakesItsIntentDurableBeforeItsCounts) {
  KillImages images(dir_.path());
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() == 4 * kTooMany) images.Take();
    };
    CallWatch watch([&](SystemCall* call) {
      const bool commits = CommitsLargeBatch(*call);
      const long result = call->Proceed();
      if (commits) images.Take();
      return result;
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    Detach(log.get());
  }
  // Before the first count moved, and after the last one.
  ASSERT_EQ(images.paths().size(), 2u);
  for (const std::string& image : images.paths()) {
    std::atomic<bool> is_stored{false};
    std::atomic<bool> is_durable{false};
    std::atomic<int> early_count{0};
    std::atomic<int> count_count{0};
    CallWatch watch([&](SystemCall* call) {
      const std::string path = PathOf(*call);
      is_stored = is_stored || CommitsLargeBatch(*call) ||
                  (call->kind == CallKind::kPwrite && path.ends_with(format::kBatchesName));
      if (call->kind == CallKind::kFdatasync && path.ends_with(format::kBatchesName)) {
        is_durable = is_stored.load();
      }
      if (call->kind == CallKind::kPwrite && path.ends_with(format::kStagingCountsName)) {
        ++(is_durable ? count_count : early_count);
      }
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    const auto log = OpenLog(options_, image);
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(early_count, 0);
    EXPECT_GE(count_count, 4);
    EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 2));
  }
}

// The records of the batch count below the synced watermark alone.
TEST_P(LargeBatchRecoveryTest, AnOpeningGoesByTheSyncedWatermark) {
  KillImages images(dir_.path());
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    CallWatch watch([&](SystemCall* call) {
      const bool commits = CommitsLargeBatch(*call);
      const long result = call->Proceed();
      if (commits) images.Take();
      return result;
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  const std::string& image = images.paths()[0];
  // A part of the line of bucket 1 has reached the device.
  SetWord(image, store_id, 1, format::WordKind::kRecords, 3 + kTooMany);
  LosePower(image, store_id);
  EXPECT_EQ(ContentIn(image, options_), ContentOver(kTooMany, 2));
}

// Its rows need not lie behind each other.
TEST_P(LargeBatchRecoveryTest, KilledInBucketsWithRowsItIsWhole) {
  options_.bucket_capacity_records = 8 * 256;
  KillImages images(dir_.path());
  TellingListener listener;
  const WriteBatch batch = BatchOverAll(300, 2);
  uint64_t store_id = 0;
  bool committed = false;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    for (uint32_t bucket = 0; bucket < 4; ++bucket) {
      ASSERT_TRUE(log->mover().Claim(bucket));
      ASSERT_TRUE(log->mover().Begin(bucket).ok());
      log->mover().Unclaim(bucket);
    }
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() % 290 == 0) images.Take();
    };
    CallWatch watch([&](SystemCall* call) {
      if (CommitsLargeBatch(*call) && !std::exchange(committed, true)) images.Take();
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(batch).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 5u);
  for (size_t i = 0; i < images.paths().size(); ++i) {
    const std::string& image = images.paths()[i];
    if (i == 3) LosePower(image, store_id);
    const auto log = OpenLog(options_, image);
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(ContentOf(log.get()), i == 0 ? ContentOver(3, 1) : ContentOver(300, 2));
    EXPECT_EQ(log->RecordCount(), 12 + (i == 0 ? 0 : batch.size()));
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 3)).ok());
  }
}

// What a batch that was not committed has left in the logs stands behind the records that come.
TEST_P(LargeBatchRecoveryTest, OneThatWasNotCommittedDoesNotComeBack) {
  KillImages images(dir_.path());
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    CallWatch watch([&](SystemCall* call) {
      if (CommitsLargeBatch(*call)) images.Take();
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  const std::string& image = images.paths()[0];
  Content wanted = ContentOver(3, 1);
  {
    const auto log = OpenLog(options_, image);
    ASSERT_NE(log, nullptr);
    for (uint64_t n = 0; n < 5; ++n) {
      ASSERT_TRUE(log->Append(KeyIn(0, n), ValueOf(KeyIn(0, n), 3).data()).ok());
      wanted[KeyIn(0, n)] = 3;
    }
    ASSERT_TRUE(log->Sync().ok());
  }
  LosePower(image, store_id);
  EXPECT_EQ(ContentIn(image, options_), wanted);
}

// A loss of power brings its intent back, long after it was cleared.
TEST_P(LargeBatchRecoveryTest, AnOldIntentChangesNoNewerRecord) {
  Content wanted = ContentOver(kTooMany, 2);
  uint64_t record_count = 0;
  uint64_t word = 0;
  constexpr uint64_t kOffset = format::kLargeIntent * format::kBatchIntentBytes;
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    CallWatch watch([&](SystemCall* call) {
      if (CommitsLargeBatch(*call)) std::memcpy(&word, call->data, sizeof(word));
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    // A bucket of the batch stays as it is.
    for (uint32_t bucket = 0; bucket < 3; ++bucket) {
      const uint64_t key = KeyIn(bucket, 5 + bucket);
      ASSERT_TRUE(log->Append(key, ValueOf(key, 3).data()).ok());
      wanted[key] = 3;
    }
    ASSERT_TRUE(log->Sync().ok());
    record_count = log->RecordCount();
  }
  ASSERT_NE(word, 0u);
  Overwrite(dir_.Join(format::kBatchesName), &word, sizeof(word), kOffset);
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->RecordCount(), record_count);
  EXPECT_EQ(ContentOf(log.get()), wanted);
}

// An intent whose checksum is right, of more records than the bucket can have.
TEST_P(LargeBatchRecoveryTest, AnIntentBeyondTheBucketsEndDamagesIt) {
  options_.bucket_capacity_records = 256;
  KillImages images(dir_.path());
  uint64_t seed = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    seed = MixWords(log->store_id() ^ 0x9fb21c651e98df25, 0x165667b19e3779f9);
    CallWatch watch([&](SystemCall* call) {
      const bool commits = CommitsLargeBatch(*call);
      const long result = call->Proceed();
      if (commits) images.Take();
      return result;
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  const std::string& image = images.paths()[0];
  const std::string path = image + "/" + format::kBatchesName;
  constexpr uint64_t kOffset = format::kLargeIntent * format::kBatchIntentBytes;
  const format::BatchIntentEntry entries[] = {{257, 1, 0}, {10, 4, 0}};
  const uint32_t count = 2;
  const uint64_t word = Hash64(entries, sizeof(entries), seed + count) | 1;
  Overwrite(path, &word, sizeof(word), kOffset);
  Overwrite(path, &count, sizeof(count), kOffset + sizeof(word));
  Overwrite(path, entries, sizeof(entries), kOffset + format::kBatchEntriesOffset);
  const auto log = OpenLog(options_, image);
  ASSERT_NE(log, nullptr);
  EXPECT_TRUE(log->BucketDamaged(1));
  EXPECT_FALSE(log->BucketDamaged(0));
}

// Acknowledged, it outlives a loss of power in every sync mode.
TEST_P(LargeBatchRecoveryTest, OutlivesALossOfPower) {
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
  }
  LosePower(dir_.path(), store_id);
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(kTooMany, 2));
}

}  // namespace
}  // namespace engine_race::test

// Batches that do not fit into staging or into the journal.
#include "engine_race/log/large_batches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/copies/copies.h"
#include "test/eventually.h"
#include "test/log/large_batch_test_util.h"

namespace engine_race::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Modes, LargeBatchTest,
                         ::testing::Values(SyncMode::kNone, SyncMode::kGroup));

TEST_P(LargeBatchTest, IsWrittenInOrder) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    WriteBatch batch = BatchOverAll(kTooMany, 2);
    PutIn(&batch, 2, 7, 3);
    ASSERT_TRUE(batch.Delete(KeyOf(KeyIn(1, 5))).ok());
    ASSERT_TRUE(log->Write(batch).ok());
    ASSERT_TRUE(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 4).data()).ok());
    EXPECT_EQ(log->RecordCount(), 12 + batch.size() + 1);
  }
  Content wanted = ContentOver(kTooMany, 2);
  wanted[KeyIn(2, 7)] = 3;
  wanted[KeyIn(0, 0)] = 4;
  wanted.erase(KeyIn(1, 5));
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
}

// Many more records of a bucket than all of its places hold.
TEST_P(LargeBatchTest, MayHaveAnyNumberOfRecords) {
  options_.bucket_capacity_records = 1 << 15;
  const uint64_t count = BatchWriter::kMaxStagedRecords / 4 + 100;
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(count, 1)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(count, 1));
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    EXPECT_EQ(log->SyncedWatermark(bucket), count) << bucket;
  }
}

// It begins in a group that is staged in part, and ends in one. Others go on behind it.
TEST_P(LargeBatchTest, LiesBetweenStagedRecords) {
  Content wanted;
  {
    const auto log = OpenLog(options_, dir_.path());
    const auto append = [&](uint64_t begin, uint64_t count) {
      for (uint64_t n = begin; n < begin + count; ++n) {
        for (uint32_t bucket = 0; bucket < 4; ++bucket) {
          ASSERT_TRUE(log->Append(KeyIn(bucket, n), ValueOf(KeyIn(bucket, n), n).data()).ok());
          wanted[KeyIn(bucket, n)] = n;
        }
      }
    };
    for (uint64_t round = 0; round < 3; ++round) {
      ASSERT_NO_FATAL_FAILURE(append(1000 * round, 1 + round));
      ASSERT_TRUE(log->Write(BatchOverAll(kTooMany + round, 1 + round)).ok());
      for (const auto& [key, version] : ContentOver(kTooMany + round, 1 + round)) {
        wanted[key] = version;
      }
      ASSERT_NO_FATAL_FAILURE(append(1000 * round + 500, 7));
      EXPECT_EQ(ContentOf(log.get()), wanted);
    }
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
}

// Staging has places for all of its records, and half of the smallest journal has not.
TEST_P(LargeBatchTest, MayBeLargerThanAHalfOfTheJournal) {
  options_.value_group_bytes = 64 * kValueBytes;
  const uint64_t count = 150;
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(count, 1)).ok());
    ASSERT_TRUE(log->Write(BatchOverAll(count, 2)).ok());
    EXPECT_EQ(ContentOf(log.get()), ContentOver(count, 2));
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(count, 2));
  if (GetParam() == SyncMode::kNone) return;
  EXPECT_EQ(std::filesystem::file_size(dir_.Join(format::kJournalName)), kMinJournalBytes);
}

// At each change of a file, and while the index is told of its records.
TEST_P(LargeBatchTest, KilledAnywhereItIsThereAsAWholeOrNotAtAll) {
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
TEST_P(LargeBatchTest, KilledAgainAndAgainItStaysCommitted) {
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

// Its rows need not lie behind each other.
TEST_P(LargeBatchTest, KilledInBucketsWithRowsItIsWhole) {
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
TEST_P(LargeBatchTest, OneThatWasNotCommittedDoesNotComeBack) {
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
TEST_P(LargeBatchTest, AnOldIntentChangesNoNewerRecord) {
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
TEST_P(LargeBatchTest, AnIntentBeyondTheBucketsEndDamagesIt) {
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

// The counts are moved once it is committed, whatever becomes of their words.
TEST_P(LargeBatchTest, CountsThatCannotBeWrittenEndWriting) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    bool committed = false;
    CallWatch watch([&](SystemCall* call) {
      committed = committed || CommitsLargeBatch(*call);
      if (committed && call->kind == CallKind::kPwrite &&
          PathOf(*call).ends_with(format::kStagingCountsName)) {
        errno = EIO;
        return -1L;
      }
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    EXPECT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 2));
    EXPECT_EQ(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 3).data()).code(), Code::kIOError);
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(kTooMany, 2));
}

// Acknowledged, it outlives a loss of power in every sync mode.
TEST_P(LargeBatchTest, OutlivesALossOfPower) {
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

// Refused before anything commits it, it leaves nothing.
TEST_P(LargeBatchTest, RefusedMemoryLeavesNothingOfIt) {
  const auto log = OpenLog(options_, dir_.path());
  TellingListener listener;
  Attach(log.get(), &listener);
  int calls = 0;
  listener.on_prepare = [&](uint32_t) -> Status {
    if (++calls == 3) throw std::bad_alloc();
    return Status::Ok();
  };
  EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kOutOfMemory);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(log->RecordCount(), 0u);
  ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 3)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 3));
  Detach(log.get());
}

// A reader of a staged record keeps its place. The batch waits for it, and nobody else does.
TEST_P(LargeBatchTest, WaitsForReadersOfStagedRecords) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  std::atomic<bool> committed{false};
  std::thread writer;
  CallWatch watch([&](SystemCall* call) {
    if (CommitsLargeBatch(*call)) committed = true;
    if (call->kind == CallKind::kPread && !writer.joinable() &&
        PathOf(*call).ends_with(format::kStagingValuesName)) {
      writer = std::thread([&] { EXPECT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok()); });
      EXPECT_TRUE(Eventually([&] { return log->SyncedWatermark(0) == 3; }));
      EXPECT_FALSE(committed);
    }
    return call->Proceed();
  });
  {
    const ScopedHook scope(&watch);
    EXPECT_EQ(ReadSlot(*log, 0, 2), ValueOf(KeyIn(0, 2), 1));
    ASSERT_TRUE(writer.joinable());
    writer.join();
  }
  EXPECT_TRUE(committed);
  EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 2));
}

// What reclaim is told of: groups that the batch has filled, each once.
class CountingGroups : public KeyGroupListener {
 public:
  void OnKeyGroup(uint32_t bucket, std::span<const format::KeyEntry> entries,
                  uint64_t record_count) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex);
    groups[bucket].push_back(record_count);
    for (const format::KeyEntry& entry : entries) keys[bucket] += entry.check != 0 ? 1 : 0;
  }

  std::mutex mutex;
  std::map<uint32_t, std::vector<uint64_t>> groups;
  std::map<uint32_t, uint64_t> keys;
};

TEST_P(LargeBatchTest, TellsReclaimOfFilledGroups) {
  const auto log = OpenLog(options_, dir_.path());
  CountingGroups listener;
  log->set_key_group_listener(&listener);
  const uint64_t group = log->geometry().keys_per_group();
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  ASSERT_TRUE(log->Write(BatchOverAll(2 * group, 2)).ok());
  EXPECT_EQ(listener.groups[0], (std::vector<uint64_t>{group, 2 * group}));
  EXPECT_EQ(listener.keys[0], 2 * group - 3);
  for (uint64_t n = 0; n + 3 < group; ++n) {
    ASSERT_TRUE(log->Append(KeyIn(0, n), ValueOf(KeyIn(0, n), 3).data()).ok());
  }
  // A checkpoint may still write the group.
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(listener.groups[0].size(), 3u);
  // Of the last group's first three nothing is staged.
  EXPECT_EQ(listener.keys[0], 3 * group - 6);
  log->set_key_group_listener(nullptr);
}

}  // namespace
}  // namespace engine_race::test

// Batches that do not fit into staging or into the journal.
#include "engine_race/log/large_batches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "test/eventually.h"
#include "test/log/large_batch_test_util.h"
#include "test/watched_thread.h"

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

// A Sync has taken its counts before the batch is committed, and comes to its buckets after that.
TEST_P(LargeBatchTest, ASyncBesideItsCommitTakesNothingBack) {
  uint64_t store_id = 0;
  WriteBatch batch;
  for (uint64_t n = 0; n < kTooMany; ++n) {
    for (uint32_t bucket = 2; bucket < 4; ++bucket) PutIn(&batch, bucket, n, 2);
  }
  Content wanted = ContentOver(3, 1);
  for (const WriteBatch::Record& record : batch.records()) wanted[record.key] = 2;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    std::thread sync;
    std::atomic<std::thread::id> sync_id;
    std::atomic<bool> is_between{false};
    CallWatch watch([&](SystemCall* call) {
      if (CommitsLargeBatch(*call)) {
        sync = std::thread([&] {
          sync_id = std::this_thread::get_id();
          EXPECT_TRUE(log->Sync().ok());
        });
        EXPECT_TRUE(Eventually([&] { return is_between.load(); }));
      } else if (std::this_thread::get_id() == sync_id && !is_between.exchange(true)) {
        EXPECT_TRUE(Eventually([&] { return log->RecordCount(3) == 3 + kTooMany; }));
      }
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(batch).ok());
    sync.join();
    EXPECT_TRUE(is_between);
    EXPECT_EQ(log->SyncedWatermark(0), 3u);
    EXPECT_EQ(log->SyncedWatermark(3), 3 + kTooMany);
    EXPECT_EQ(ContentOf(log.get()), wanted);
  }
  LosePower(dir_.path(), store_id);
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
}

// The counts are moved once it is committed, whatever becomes of their words.
TEST_P(LargeBatchTest, CountsThatCannotBeWrittenEndWriting) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    std::atomic<bool> committed{false};
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
  std::atomic<bool> is_reading{true};
  std::unique_ptr<WatchedThread> writer;
  CallWatch watch([&](SystemCall* call) {
    const std::string path = PathOf(*call);
    // What the batch writes comes after its Sync.
    if (call->kind == CallKind::kPwrite && path.ends_with("value_01") &&
        log->SyncedWatermark(3) == 3) {
      EXPECT_FALSE(is_reading);
    }
    if (call->kind == CallKind::kPread && writer == nullptr &&
        path.ends_with(format::kStagingValuesName)) {
      writer = std::make_unique<WatchedThread>(
          [&] { EXPECT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok()); });
      EXPECT_TRUE(Eventually([&] { return log->SyncedWatermark(3) == 3; }));
      EXPECT_TRUE(writer->AwaitSleep());
      is_reading = false;
    }
    return call->Proceed();
  });
  {
    const ScopedHook scope(&watch);
    EXPECT_EQ(ReadSlot(*log, 0, 2), ValueOf(KeyIn(0, 2), 1));
    ASSERT_NE(writer, nullptr);
    writer->Join();
  }
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

// Sync, the sync modes and what the next opening finds, without a simulated disk: a restart of the
// machine is played by changing the page cache id in the counts.
#include "engine_race/log/syncer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

TEST(SyncTest, PartialGroupsOutliveTheLossOfStaging) {
  const TempDir dir;
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    store_id = log->store_id();
    AppendMany(log.get(), 0, 307);
    EXPECT_EQ(log->SyncedWatermark(0), 0u);
    ASSERT_TRUE(log->Sync().ok());
    EXPECT_EQ(log->SyncedWatermark(0), 307u);
    AppendMany(log.get(), 307, 310);
    EXPECT_EQ(log->SyncedWatermark(0), 307u);
  }
  LosePower(dir.path(), store_id);
  {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    ExpectHoldsExactly(log.get(), 307);
    AppendMany(log.get(), 307, 900);
    ExpectHoldsExactly(log.get(), 900);
  }
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  ExpectHoldsExactly(log.get(), 900);
}

// Its synced records are in the logs alone then. Later ones go to the same place.
TEST(SyncTest, AGroupGoesOnAfterItsStagingWasGivenBack) {
  for (const bool loses_power : {false, true}) {
    const TempDir dir;
    uint64_t store_id = 0;
    const auto staged = [&] {
      std::ifstream file(dir.Join(format::kStagingValuesName), std::ios::binary);
      return std::any_of(std::istreambuf_iterator<char>(file), {}, [](char c) { return c != 0; });
    };
    {
      const auto log = OpenLog(TinyLogOptions(), dir.path());
      const auto give_back = [&] {
        for (uint32_t bucket = 0; bucket < 4; ++bucket) log->GiveBackStaging(bucket);
      };
      store_id = log->store_id();
      AppendMany(log.get(), 0, 307);
      give_back();
      EXPECT_TRUE(staged()) << "what is not synced stays";
      ASSERT_TRUE(log->Sync().ok());
      give_back();
      EXPECT_FALSE(staged());
      ExpectHoldsExactly(log.get(), 307);
      AppendMany(log.get(), 307, 310);
      ExpectHoldsExactly(log.get(), 310);
      ASSERT_TRUE(log->Sync().ok());
      give_back();
    }
    if (loses_power) LosePower(dir.path(), store_id);
    {
      const auto log = OpenLog(TinyLogOptions(), dir.path());
      ExpectHoldsExactly(log.get(), 310);
      AppendMany(log.get(), 310, 900);
      ExpectHoldsExactly(log.get(), 900);
    }
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    ExpectHoldsExactly(log.get(), 900);
  }
}

TEST(SyncTest, AnOrderlyRestartLosesNothingThatWasStaged) {
  const TempDir dir;
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    store_id = log->store_id();
    AppendMany(log.get(), 0, 263);
  }
  Restart(dir.path(), store_id);
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  ExpectHoldsExactly(log.get(), 263);
  EXPECT_EQ(log->SyncedWatermark(0), 263u);
}

TEST(SyncTest, RecordsBehindALostOneAreCutAndDoNotComeBack) {
  const TempDir dir;
  uint64_t store_id = 0;
  uint64_t offset = 0;
  {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    store_id = log->store_id();
    // Two groups of keys and a half.
    AppendMany(log.get(), 0, 640);
    offset = log->slots().LocateValues(0, 100).offset;
  }
  const std::string zeros(kValueBytes, '\0');
  Overwrite(dir.path() + "/value_00", zeros.data(), zeros.size(), offset);
  Restart(dir.path(), store_id);
  {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    ExpectHoldsExactly(log.get(), 100);
    // As many records again as the first group of keys takes: were those of the second still
    // readable, they would follow.
    AppendMany(log.get(), 100, 256);
    ASSERT_TRUE(log->Sync().ok());
  }
  LosePower(dir.path(), store_id);
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  ExpectHoldsExactly(log.get(), 256);
}

TEST(SyncTest, SyncOnCloseLeavesNothingUnsynced) {
  const TempDir dir;
  Options options = TinyLogOptions();
  options.sync_on_close = true;
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options, dir.path());
    store_id = log->store_id();
    AppendMany(log.get(), 0, 50);
  }
  LosePower(dir.path(), store_id);
  const auto log = OpenLog(options, dir.path());
  ExpectHoldsExactly(log.get(), 50);
}

TEST(SyncerTest, TheSyncedWatermarkMovesAfterTheFlushOfTheLogs) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  Syncer syncer(&parts.context, &parts.writer, &parts.groups);
  parts.AppendKeys(0, 6);
  const uint64_t flush_count = syncer.flush_count();
  std::vector<std::string> steps;
  CallWatch watch([&steps, &parts](SystemCall* call) {
    const std::string path = PathOf(*call);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (call->kind == CallKind::kPwrite) steps.push_back("write " + name);
    if (call->kind == CallKind::kFdatasync) {
      steps.push_back("flush " + name + " " + std::to_string(parts.Counts().synced_watermark));
    }
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    ASSERT_TRUE(syncer.Sync().ok());
  }
  // Open files once, because an earlier opening may have written to them; the counts at the end.
  const std::vector<std::string> expected = {"write value_00",
                                             "write key_00",
                                             "flush key_00 0",
                                             "flush value_00 0",
                                             "flush manifest_segments 0",
                                             "flush staging_counts 6"};
  EXPECT_EQ(steps, expected);
  EXPECT_EQ(syncer.SyncedWatermark(0), 6u);
  EXPECT_EQ(syncer.flush_count() - flush_count, 3u);
}

// A Sync of the earlier opening may have been killed before it flushed them.
TEST(SyncerTest, ASyncThatFindsAllSyncedFlushesTheCountsThatTheOpeningFound) {
  const TempDir dir;
  {
    LogParts parts(TinyLogOptions(), dir.path());
    Syncer syncer(&parts.context, &parts.writer, &parts.groups);
    parts.AppendKeys(0, 6);
    ASSERT_TRUE(syncer.Sync().ok());
  }
  std::vector<std::string> flushed;
  CallWatch watch([&flushed](SystemCall* call) {
    if (call->kind == CallKind::kFdatasync) flushed.push_back(PathOf(*call));
    return call->Proceed();
  });
  const ScopedHook hook(&watch);
  LogParts parts(TinyLogOptions(), dir.path());
  EXPECT_TRUE(flushed.empty());
  Syncer syncer(&parts.context, &parts.writer, &parts.groups);
  // Once.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(syncer.Sync().ok());
    EXPECT_EQ(flushed, (std::vector<std::string>{dir.Join(format::kStagingCountsName),
                                                 dir.Join(format::kSegmentTableName)}));
  }
}

TEST(SyncerTest, CountsThatCannotBeFlushedLeaveAReadableStore) {
  const TempDir dir;
  {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    AppendMany(log.get(), 0, 6);
    ASSERT_TRUE(log->Sync().ok());
  }
  CallWatch watch([](SystemCall* call) -> long {
    if (call->kind != CallKind::kFdatasync) return call->Proceed();
    errno = EIO;
    return -1;
  });
  const ScopedHook hook(&watch);
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->Sync().code(), Code::kIOError);
  EXPECT_EQ(log->Append(6, ValueOf(6, 1).data()).code(), Code::kIOError);
  ExpectHoldsExactly(log.get(), 6);
}

TEST(SyncerTest, ASyncThatFindsAllSyncedDoesNothing) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  Syncer syncer(&parts.context, &parts.writer, &parts.groups);
  ASSERT_TRUE(parts.writer.FlushFound().ok());
  parts.AppendKeys(0, 6);
  ASSERT_TRUE(syncer.Sync().ok());
  const uint64_t flush_count = syncer.flush_count();
  ASSERT_TRUE(syncer.Sync().ok());
  EXPECT_EQ(syncer.flush_count(), flush_count);
}

TEST(SyncerTest, AFullDiskLeavesAllToTheNextSync) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  Syncer syncer(&parts.context, &parts.writer, &parts.groups);
  parts.AppendKeys(0, 6);
  FailingCalls failing(CallKind::kPwrite, "/key_00", ENOSPC);
  const ScopedHook hook(&failing);
  EXPECT_EQ(syncer.Sync().code(), Code::kFull);
  EXPECT_EQ(syncer.SyncedWatermark(0), 0u);
  EXPECT_EQ(parts.Counts().synced_watermark, 0u);
  failing.on = false;
  EXPECT_TRUE(syncer.Sync().ok());
  EXPECT_EQ(syncer.SyncedWatermark(0), 6u);
}

TEST(SyncerTest, AFailedFlushMovesNoCountAndIsFinal) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  Syncer syncer(&parts.context, &parts.writer, &parts.groups);
  parts.AppendKeys(0, 6);
  FailingCalls failing(CallKind::kFdatasync, "/value_00", EIO);
  const ScopedHook hook(&failing);
  EXPECT_EQ(syncer.Sync().code(), Code::kIOError);
  failing.on = false;
  EXPECT_EQ(syncer.Sync().code(), Code::kIOError);
  EXPECT_EQ(syncer.SyncedWatermark(0), 0u);
  EXPECT_EQ(parts.Counts().synced_watermark, 0u);
}

// Where the journal cannot be had the store can be read, and each write tries again.
TEST(SyncerTest, AJournalThatFindsNoRoomIsTriedAgain) {
  const TempDir dir;
  const Options options = TinyLogOptions(SyncMode::kGroup);
  LogParts parts(options, dir.path());
  Syncer syncer(&parts.context, &parts.writer, &parts.groups);
  FailingCalls failing(CallKind::kPwrite, format::kJournalName, ENOSPC);
  const ScopedHook hook(&failing);
  Journal* journal = nullptr;
  EXPECT_EQ(syncer.EnsureJournal(&journal).code(), Code::kFull);
  EXPECT_EQ(journal, nullptr);
  failing.on = false;
  EXPECT_TRUE(syncer.EnsureJournal(&journal).ok());
  EXPECT_NE(journal, nullptr);
  Journal* again = nullptr;
  EXPECT_TRUE(syncer.EnsureJournal(&again).ok());
  EXPECT_EQ(again, journal);
  syncer.Close();
}

class SyncModeTest : public testing::TestWithParam<SyncMode> {};

TEST_P(SyncModeTest, AcknowledgedWritesOutliveTheLossOfStaging) {
  const TempDir dir;
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(TinyLogOptions(GetParam()), dir.path());
    store_id = log->store_id();
    AppendMany(log.get(), 0, 29);
    EXPECT_EQ(log->durable_write_count(), 29u);
    EXPECT_EQ(log->SyncedWatermark(0), 0u) << "the journal has them, the logs need not";
  }
  LosePower(dir.path(), store_id);
  const auto log = OpenLog(TinyLogOptions(GetParam()), dir.path());
  ExpectHoldsExactly(log.get(), 29);
}

TEST_P(SyncModeTest, TheJournalGoesRound) {
  const TempDir dir;
  uint64_t store_id = 0;
  // More than both halves hold.
  constexpr uint64_t kCount = 3 * kMinJournalBytes / kValueBytes / 2;
  {
    const auto log = OpenLog(TinyLogOptions(GetParam()), dir.path());
    store_id = log->store_id();
    AppendMany(log.get(), 0, kCount);
    EXPECT_GT(log->SyncedWatermark(0), 0u) << "a checkpoint has made room";
  }
  LosePower(dir.path(), store_id);
  const auto log = OpenLog(TinyLogOptions(SyncMode::kNone), dir.path());
  ExpectHoldsExactly(log.get(), kCount);
}

TEST_P(SyncModeTest, WritersOfManyBucketsAndSyncersAtOnce) {
  const TempDir dir;
  uint64_t store_id = 0;
  constexpr uint64_t kThreads = 8;
  constexpr uint64_t kEach = 200;
  {
    const auto log = OpenLog(TinyLogOptions(GetParam()), dir.path());
    store_id = log->store_id();
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&log, t] {
        for (uint64_t i = 0; i < kEach; ++i) {
          const uint64_t key = ((t % 4) << 62) | (t << 32) | i;
          ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
          if (i % 64 == t) {
            ASSERT_TRUE(log->Sync().ok());
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  LosePower(dir.path(), store_id);
  const auto log = OpenLog(TinyLogOptions(GetParam()), dir.path());
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    const std::vector<KeyRecord> records = RecordsOf(log.get(), bucket);
    ASSERT_EQ(records.size(), kThreads / 4 * kEach);
    for (const KeyRecord& record : records) {
      EXPECT_EQ(ReadSlot(*log, bucket, record.slot), ValueOf(record.key, 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DurableModes, SyncModeTest,
                         testing::Values(SyncMode::kEveryWrite, SyncMode::kGroup),
                         [](const auto& mode) {
                           return mode.param == SyncMode::kGroup ? "Group" : "EveryWrite";
                         });

}  // namespace
}  // namespace engine_race::test

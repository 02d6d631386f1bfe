// Batches: written as a whole, in order, and whole or not at all after a kill at any moment.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "engine_race/copies/copies.h"
#include "test/index/refused_memory.h"
#include "test/log/batch_test_util.h"

namespace engine_race::test {
namespace {

class BatchTest : public ::testing::TestWithParam<StagingMode> {
 protected:
  BatchTest() { options_.staging_mode = GetParam(); }

  TempDir dir_;
  Options options_ = TinyLogOptions();
};

INSTANTIATE_TEST_SUITE_P(Staging, BatchTest,
                         ::testing::Values(StagingMode::kAuto, StagingMode::kWritten));

TEST_P(BatchTest, LaterEntriesOfAKeyWin) {
  {
    const auto log = OpenLog(options_, dir_.path());
    WriteBatch batch;
    PutIn(&batch, 3, 1, 10);
    PutIn(&batch, 0, 1, 11);
    ASSERT_TRUE(batch.Delete(KeyOf(KeyIn(3, 1))).ok());
    PutIn(&batch, 0, 1, 12);
    PutIn(&batch, 3, 2, 13);
    PutIn(&batch, 2, 9, 14);
    ASSERT_TRUE(batch.Delete(KeyOf(KeyIn(2, 8))).ok());
    ASSERT_TRUE(log->Write(batch).ok());
    EXPECT_EQ(log->RecordCount(), 7u);
    const std::vector<KeyRecord> records = RecordsOf(log.get(), 3);
    ASSERT_EQ(records.size(), 3u);
    EXPECT_FALSE(records[0].tombstone);
    EXPECT_TRUE(records[1].tombstone);
    EXPECT_EQ(records[2].key, KeyIn(3, 2));
  }
  const Content wanted = {{KeyIn(0, 1), 12}, {KeyIn(3, 2), 13}, {KeyIn(2, 9), 14}};
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
}

TEST_P(BatchTest, OneBatchFillsSeveralGroups) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Append(KeyIn(1, 99), ValueOf(KeyIn(1, 99), 1).data()).ok());
    // Groups of four values: six groups begin in the bucket.
    ASSERT_TRUE(log->Write(BatchOverAll(22, 2)).ok());
    EXPECT_EQ(log->LoggedValueWatermark(1), 20u);
    for (uint64_t version = 3; version < 40; ++version) {
      ASSERT_TRUE(log->Write(BatchOverAll(11, version)).ok());
    }
  }
  Content wanted = ContentOver(22, 2);
  for (const auto& [key, version] : ContentOver(11, 39)) wanted[key] = version;
  wanted[KeyIn(1, 99)] = 1;
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
}

TEST_P(BatchTest, ListenersHearOfEachRecordOnceBetweenBeginAndEnd) {
  const auto log = OpenLog(options_, dir_.path());
  TellingListener listener;
  Attach(log.get(), &listener);
  bool inside = true;
  listener.on_append = [&](uint32_t) {
    inside = inside && listener.begun == 1 && listener.ended == 0;
  };
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  EXPECT_TRUE(inside);
  EXPECT_EQ(listener.begun, 1);
  EXPECT_EQ(listener.ended, 1);
  ASSERT_EQ(listener.appends.size(), 12u);
  for (size_t i = 0; i < listener.appends.size(); ++i) {
    EXPECT_EQ(listener.appends[i].first, i / 3);
    EXPECT_EQ(listener.appends[i].second.sequence, i % 3);
    EXPECT_EQ(listener.appends[i].second.key, KeyIn(static_cast<uint32_t>(i / 3), i % 3));
  }
  Detach(log.get());
}

// The records of a batch may stand in staging; none of them counts before the intent does.
TEST_P(BatchTest, KilledWhileItIsPreparedItLeavesNothing) {
  KillImages images(dir_.path());
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(2, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_prepare = [&](uint32_t bucket) {
      if (bucket == 3) images.Take();
      return Status::Ok();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(5, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  EXPECT_EQ(ContentIn(images.paths()[0], options_), ContentOver(2, 1));
}

TEST_P(BatchTest, KilledBetweenItsCountsItIsThereAsAWhole) {
  KillImages images(dir_.path());
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(2, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t bucket) {
      // After the counts of the buckets up to this one.
      if (images.paths().size() == bucket) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(5, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 4u);
  for (const std::string& image : images.paths()) {
    VerifyReport report;
    EXPECT_TRUE(VerifyStore(image, &report, {}).ok());
    EXPECT_EQ(report.record_count, 28u);
    EXPECT_EQ(ContentIn(image, options_), ContentOver(5, 2));
    // And once more: the intent is gone, the records are not.
    EXPECT_EQ(ContentIn(image, options_), ContentOver(5, 2));
  }
}

// An intent counts no record that a power loss has taken.
TEST_P(BatchTest, AnIntentDoesNotOutliveItsRecords) {
  KillImages images(dir_.path());
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(2, 1)).ok());
    ASSERT_TRUE(log->Sync().ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (images.paths().empty()) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(5, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  LosePower(images.paths()[0], store_id);
  EXPECT_EQ(ContentIn(images.paths()[0], options_), ContentOver(2, 1));
  EXPECT_EQ(ContentIn(images.paths()[0], options_), ContentOver(2, 1));
}

// Recovery in doubt finds that the records of an intent are not there. Interrupted, it may not
// leave the intent to an opening that is in no doubt any more.
TEST_P(BatchTest, AnIntentIsGoneBeforeTheDoubtIs) {
  KillImages images(dir_.path());
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (images.paths().empty()) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(2, 1)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  const std::string& image = images.paths()[0];
  SetWord(image, store_id, 0, format::WordKind::kPageCache, 0);
  const std::string lost(4096, '\0');
  for (uint64_t offset = 0;
       offset < std::filesystem::file_size(image + "/" + format::kStagingKeysName);
       offset += lost.size()) {
    Overwrite(image + "/" + format::kStagingKeysName, lost.data(), lost.size(), offset);
  }
  {
    FailingCalls broken(CallKind::kPwrite, format::kBatchesName, EIO);
    const ScopedHook scope(&broken);
    std::unique_ptr<BucketLog> log;
    EXPECT_EQ(BucketLog::Open(options_, image, &log).code(), Code::kIOError);
    EXPECT_GT(broken.count, 0);
  }
  const auto log = OpenLog(options_, image);
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->RecordCount(), 0u);
}

// Staged by pwrite, every step of a batch is a call. A kill before or after any of them leaves all
// of the batch or nothing.
TEST(BatchKillTest, EveryCallIsAPlaceToDie) {
  TempDir dir;
  Options options = TinyLogOptions();
  options.staging_mode = StagingMode::kWritten;
  KillImages images(dir.path());
  int committed = 0;
  {
    const auto log = OpenLog(options, dir.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    CallWatch watch([&](SystemCall* call) {
      if (call->kind != CallKind::kPwrite) return call->Proceed();
      images.Take();
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(2, 2)).ok());
  }
  EXPECT_GT(images.paths().size(), 20u);
  Content newer = ContentOver(3, 1);
  for (const auto& [key, version] : ContentOver(2, 2)) newer[key] = version;
  for (const std::string& image : images.paths()) {
    const Content content = ContentIn(image, options);
    if (content == newer) ++committed;
    EXPECT_TRUE(content == newer || content == ContentOver(3, 1)) << image;
    // From the first one that has the batch on, all have it.
    EXPECT_EQ(content == newer, committed > 0);
  }
  EXPECT_GE(committed, 4);
  EXPECT_LT(committed, static_cast<int>(images.paths().size()) - 8);
}

TEST_P(BatchTest, RefusedMemoryLeavesNothingOfIt) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  TellingListener listener;
  Attach(log.get(), &listener);
  listener.on_prepare = [&](uint32_t bucket) {
    return bucket == 2 ? Status::OutOfMemory("none") : Status::Ok();
  };
  EXPECT_EQ(log->Write(BatchOverAll(9, 2)).code(), Code::kOutOfMemory);
  EXPECT_TRUE(listener.appends.empty());
  EXPECT_EQ(log->RecordCount(), 12u);
  listener.on_prepare = nullptr;
  // All places are free again, and all buckets.
  for (uint64_t version = 3; version < 20; ++version) {
    ASSERT_TRUE(log->Write(BatchOverAll(9, version)).ok());
    ASSERT_TRUE(log->Append(KeyIn(0, 50), ValueOf(KeyIn(0, 50), version).data()).ok());
  }
  Detach(log.get());
  Content wanted = ContentOver(9, 19);
  wanted[KeyIn(0, 50)] = 19;
  EXPECT_EQ(ContentOf(log.get()), wanted);
}

// Whichever request for memory is refused, the store takes the next batch.
TEST_P(BatchTest, ARefusedRequestRefusesOnlyTheBatch) {
  bool refused = true;
  for (uint64_t n = 0; refused; ++n) {
    const TempDir dir;
    const auto log = OpenLog(options_, dir.path());
    const WriteBatch batch = BatchOverAll(3, 1);
    Status status;
    {
      const RefuseMemory refuse(n);
      status = log->Write(batch);
      refused = refuse.refused();
    }
    ASSERT_TRUE(status.ok() || (refused && status.code() == Code::kOutOfMemory)) << n;
    EXPECT_EQ(log->RecordCount(), status.ok() ? 12u : 0u) << n;
    const Status next = log->Write(BatchOverAll(3, 2));
    ASSERT_TRUE(next.ok()) << "request " << n << ": " << next.ToString();
    EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 2));
  }
}

TEST_P(BatchTest, AFullBucketRefusesAllOfIt) {
  options_.bucket_capacity_records = 256;
  const auto log = OpenLog(options_, dir_.path());
  for (uint64_t n = 0; n < 250; ++n) {
    ASSERT_TRUE(log->Append(KeyIn(3, n), ValueOf(KeyIn(3, n), 1).data()).ok());
  }
  EXPECT_EQ(log->Write(BatchOverAll(7, 2)).code(), Code::kFull);
  EXPECT_EQ(log->RecordCount(), 250u);
  ASSERT_TRUE(log->Write(BatchOverAll(6, 3)).ok());
  EXPECT_EQ(log->RecordCount(3), 256u);
  EXPECT_EQ(log->RecordCount(0), 6u);
}

// Takes its time between the counts of a batch.
class SlowListener : public AppendListener {
 public:
  Status Prepare(uint32_t) override { return Status::Ok(); }
  void OnAppend(uint32_t, const KeyRecord&) noexcept override {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
};

// Each batch has a record for each bucket, and nobody else writes: so a Sync that goes through no
// batch makes equally many records of all buckets durable.
TEST_P(BatchTest, ASyncGoesThroughNoBatch) {
  options_.bucket_capacity_records = 1 << 16;
  const auto log = OpenLog(options_, dir_.path());
  SlowListener listener;
  Attach(log.get(), &listener);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers(3);
  for (std::thread& writer : writers) {
    writer = std::thread([&] {
      for (uint64_t version = 1; !stop && version < 15000; ++version) {
        ASSERT_TRUE(log->Write(BatchOverAll(1, version)).ok());
      }
    });
  }
  for (int i = 0; i < 150; ++i) {
    ASSERT_TRUE(log->Sync().ok());
    const uint64_t synced = log->SyncedWatermark(0);
    for (uint32_t bucket = 1; bucket < 4; ++bucket) {
      EXPECT_EQ(log->SyncedWatermark(bucket), synced) << bucket;
    }
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  Detach(log.get());
}

TEST_P(BatchTest, BatchesSinglesAndCutsShareTheBuckets) {
  options_.bucket_capacity_records = 1 << 16;
  uint64_t written = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    // A batch may still tell it after the bucket was detached.
    NullListener listener;
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t i = 0; i < 150; ++i) {
          if (thread == 3) {
            const uint64_t key = KeyIn(i % 4, 1000 + i);
            ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
            continue;
          }
          // Of different lengths, over some of the buckets.
          WriteBatch batch;
          for (uint64_t n = 0; n < 1 + (i * 7 + thread) % 25; ++n) {
            PutIn(&batch, static_cast<uint32_t>((n * (thread + 1)) % 4), n, i + 1);
          }
          ASSERT_TRUE(log->Write(batch).ok());
        }
      });
    }
    for (int i = 0; i < 200; ++i) {
      BucketCut cut;
      ASSERT_TRUE(log->reader().CutBucket(i % 4, 0, &listener, &cut).ok());
      EXPECT_EQ(cut.record_count - cut.first_staged(), cut.staged_keys.size());
      log->reader().DetachListener(i % 4);
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& [key, version] : ContentOf(log.get())) written += version != 0;
  }
  const Content after = ContentIn(dir_.path(), options_);
  EXPECT_EQ(after.size(), written);
}

// A manifest that is written anew is another file.
TEST(BatchFormatTest, TheFirstBatchLeavesTheManifestAsItIs) {
  TempDir dir;
  const auto inode = [&] {
    struct stat info = {};
    EXPECT_EQ(::stat(dir.Join(format::kManifestName).c_str(), &info), 0);
    return info.st_ino;
  };
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  const auto before = inode();
  ASSERT_TRUE(log->Write(BatchOverAll(1, 1)).ok());
  EXPECT_EQ(inode(), before);
}

}  // namespace
}  // namespace engine_race::test

// Batches of several threads in SyncMode::kGroup: they share flushes, and none spoils another.
#include "engine_race/log/batch_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "test/eventually.h"
#include "test/log/large_batch_test_util.h"

namespace engine_race::test {
namespace {

class BatchQueueTest : public testing::Test {
 protected:
  void Open(const Options& options) {
    options_ = options;
    options_.sync_mode = SyncMode::kGroup;
    options_.journal_bytes = kMinJournalBytes;
    log_ = OpenLog(options_, dir_.path());
    ASSERT_NE(log_, nullptr);
  }

  // Writes the first batch, and holds its flush until all others wait. Answers what each got.
  std::vector<Status> WriteTogether(const std::vector<WriteBatch>& batches) {
    std::atomic<bool> held{false};
    CallWatch hold([&](SystemCall* call) {
      const bool flushes =
          call->kind == CallKind::kFdatasync && PathOf(*call).ends_with(format::kJournalName);
      if (flushes && !held.exchange(true)) {
        EXPECT_TRUE(Eventually([&] { return log_->waiting_batch_count() == batches.size() - 1; }));
      }
      return call->Proceed();
    });
    const ScopedHook scope(&hold);
    std::vector<Status> statuses(batches.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < batches.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = log_->Write(batches[i]); });
      // The first one leads, and the others wait in this order. The last one lets all go on.
      if (i + 1 == batches.size()) continue;
      EXPECT_TRUE(Eventually([&] { return held && log_->waiting_batch_count() >= i; }));
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  const TempDir dir_;
  Options options_;
  std::unique_ptr<BucketLog> log_;
};

WriteBatch BatchIn(std::vector<uint32_t> buckets, uint64_t first, uint64_t count,
                   uint64_t version) {
  WriteBatch batch;
  for (const uint32_t bucket : buckets) {
    for (uint64_t n = first; n < first + count; ++n) PutIn(&batch, bucket, n, version);
  }
  return batch;
}

TEST_F(BatchQueueTest, ThoseThatWaitShareOneFlush) {
  Open(TinyLogOptions());
  constexpr uint64_t kBatches = 8;
  std::vector<WriteBatch> batches;
  for (uint64_t i = 0; i < kBatches; ++i) batches.push_back(BatchIn({0, 1}, 0, 3, i + 1));
  const uint64_t flush_count = log_->flush_count();
  for (const Status& status : WriteTogether(batches)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(log_->flush_count() - flush_count, 2u) << "of the first batch, and of all the others";
  EXPECT_EQ(log_->durable_write_count(), kBatches * 6);
  EXPECT_EQ(log_->RecordCount(0), kBatches * 3);
  const Content content = ContentOf(log_.get());
  ASSERT_EQ(content.size(), 6u);
  // The last one wins.
  for (const auto& [key, version] : content) EXPECT_EQ(version, kBatches) << key;
  const uint64_t store_id = log_->store_id();
  log_.reset();
  LosePower(dir_.path(), store_id);
  EXPECT_EQ(ContentIn(dir_.path(), TinyLogOptions()), content);
}

TEST_F(BatchQueueTest, ARefusedOneKeepsNoOtherFromBeingWritten) {
  Options options = TinyLogOptions();
  options.bucket_capacity_records = 256;
  Open(options);
  for (uint64_t n = 0; n < 250; ++n) {
    ASSERT_TRUE(log_->Append(KeyIn(3, n), ValueOf(KeyIn(3, n), 1).data()).ok());
  }
  std::vector<WriteBatch> batches;
  batches.push_back(BatchIn({0, 1}, 0, 1, 1));
  batches.push_back(BatchIn({0, 1}, 10, 1, 1));
  batches.push_back(BatchIn({0, 3}, 1000, 9, 1));
  batches.push_back(BatchIn({0, 1}, 20, 1, 1));
  batches.push_back(BatchIn({0, 3}, 2000, 3, 1));
  const std::vector<Status> statuses = WriteTogether(batches);
  for (size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_EQ(statuses[i].code(), i == 2 ? Code::kFull : Code::kOk) << i;
  }
  EXPECT_EQ(log_->RecordCount(0), 6u);
  EXPECT_EQ(log_->RecordCount(1), 3u);
  EXPECT_EQ(log_->RecordCount(3), 253u);
}

// Each fits into staging, and two together do not.
TEST_F(BatchQueueTest, ThoseThatDoNotFitTogetherAreWrittenApart) {
  Open(TinyLogOptions());
  constexpr uint64_t kMostOfStaging = 20;
  std::vector<WriteBatch> batches;
  for (uint64_t i = 0; i < 5; ++i) batches.push_back(BatchIn({0, 1}, 100 * i, kMostOfStaging, 1));
  for (const Status& status : WriteTogether(batches)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(ContentOf(log_.get()).size(), 5 * 2 * kMostOfStaging);
}

// One that waits for a large batch leads no other into the wait.
TEST_F(BatchQueueTest, ALargeBatchStallsThoseOfItsOwnBucketsAlone) {
  Open(TinyLogOptions());
  ASSERT_TRUE(log_->Write(BatchIn({0, 1, 2, 3}, 0, 1, 1)).ok());
  std::vector<std::thread> threads;
  std::atomic<bool> waited{false};
  std::atomic<bool> passed{false};
  CallWatch commit([&](SystemCall* call) {
    if (!CommitsLargeBatch(*call)) return call->Proceed();
    threads.emplace_back([&] {
      EXPECT_TRUE(log_->Write(BatchIn({1, 2}, 0, 1, 3)).ok());
      EXPECT_TRUE(passed) << "it did not wait";
      waited = true;
    });
    threads.emplace_back([&] {
      EXPECT_TRUE(log_->Write(BatchIn({2, 3}, 0, 1, 2)).ok());
      EXPECT_FALSE(waited);
      passed = true;
    });
    EXPECT_TRUE(Eventually([&] { return passed.load(); }));
    return call->Proceed();
  });
  {
    const ScopedHook scope(&commit);
    EXPECT_TRUE(log_->Write(BatchIn({0, 1}, 0, 100, 2)).ok());
  }
  ASSERT_EQ(threads.size(), 2u);
  for (std::thread& thread : threads) thread.join();
  const std::map<uint64_t, uint64_t> content = ContentOf(log_.get());
  EXPECT_EQ(content.at(KeyIn(1, 0)), 3u);
  EXPECT_EQ(content.at(KeyIn(3, 0)), 2u);
}

}  // namespace
}  // namespace engine_race::test

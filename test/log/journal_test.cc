#include "engine_race/log/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/journal_replay.h"
#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kJournalStoreId = 77;

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() {
    EXPECT_TRUE(sys::OpenAt(AT_FDCWD, dir_.path(), O_RDONLY | O_DIRECTORY, 0, &directory_).ok());
  }

  void Open(uint32_t batch_records = format::kJournalBatchRecords) {
    Journal::Callbacks callbacks;
    callbacks.checkpoint = [this] {
      ++checkpoint_count_;
      return checkpoint_answer_;
    };
    callbacks.on_failure = [this](const Status&) { ++failure_count_; };
    const Status opened =
        Journal::Open(directory_.get(), OwnIds(kJournalStoreId), value_bytes_, kMinJournalBytes,
                      0600, batch_records, Placement(), std::move(callbacks), &journal_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }

  JournalRequest RequestOf(uint64_t sequence, const std::string* value) const {
    KeyRecord record;
    record.key = sequence;
    record.tombstone = value == nullptr;
    record.value_hash = value == nullptr ? 0 : HashValue(value->data(), value->size());
    JournalRequest request;
    request.descriptor = {
        SlotTable::EncodeAppended(EntryCodec(kJournalStoreId, 0), record, sequence), /*bucket=*/0,
        /*reserved=*/0};
    request.value = value == nullptr ? nullptr : value->data();
    return request;
  }
  Status Commit(uint64_t sequence, const std::string* value) {
    JournalRequest request = RequestOf(sequence, value);
    journal_->Enqueue(&request);
    return journal_->Await(&request);
  }
  // Fills the half that is written to but for less than one batch of a single value.
  void CommitHalf(uint64_t first_sequence) {
    const std::string value = ValueOf(1, 1);
    const uint64_t batch_bytes = 2 * format::kJournalBlockBytes;
    const uint64_t batches = kMinJournalBytes / format::kJournalHalves / batch_bytes;
    for (uint32_t i = 0; i < batches; ++i) ASSERT_TRUE(Commit(first_sequence + i, &value).ok());
    half_batches_ = static_cast<uint32_t>(batches);
  }
  JournalReplay Replay() const {
    JournalReplay replay;
    EXPECT_TRUE(replay.Read(directory_.get(), OwnIds(kJournalStoreId), value_bytes_).ok());
    return replay;
  }

  const TempDir dir_;
  UniqueFd directory_;
  std::atomic<int> checkpoint_count_{0};
  std::atomic<int> failure_count_{0};
  Status checkpoint_answer_;
  uint32_t value_bytes_ = kValueBytes;
  uint32_t half_batches_ = 0;
  std::unique_ptr<Journal> journal_;
};

TEST_F(JournalTest, RecordsThatWaitTogetherShareOneFlushAndReadBack) {
  Open();
  const std::string first = ValueOf(0, 1);
  const std::string third = ValueOf(2, 1);
  JournalRequest requests[] = {RequestOf(0, &first), RequestOf(1, nullptr), RequestOf(2, &third)};
  for (JournalRequest& request : requests) journal_->Enqueue(&request);
  // The first one leads the batch, and so commits for all.
  for (JournalRequest& request : requests) EXPECT_TRUE(journal_->Await(&request).ok());
  EXPECT_EQ(journal_->flush_count(), 1u);
  EXPECT_EQ(journal_->durable_record_count(), 3u);

  const JournalReplay replay = Replay();
  EXPECT_EQ(replay.EndSequence(0), 3u);
  const JournalReplay::Record* const found = replay.Find(0, 2);
  ASSERT_NE(found, nullptr);
  Region buffer;
  ASSERT_TRUE(Region::Allocate(kValueBytes, /*huge_pages=*/false, &buffer).ok());
  ASSERT_TRUE(replay.ReadValue(*found, buffer.data()).ok());
  EXPECT_EQ(std::string(buffer.data(), kValueBytes), third) << "a tombstone takes no block";
}

TEST_F(JournalTest, ABatchTakesNoMoreRecordsThanItMay) {
  Open(/*batch_records=*/1);
  const std::string value = ValueOf(0, 1);
  JournalRequest requests[] = {RequestOf(0, &value), RequestOf(1, &value)};
  for (JournalRequest& request : requests) journal_->Enqueue(&request);
  for (JournalRequest& request : requests) EXPECT_TRUE(journal_->Await(&request).ok());
  EXPECT_EQ(journal_->flush_count(), 2u);
}

// The half that has filled up holds records that may be nowhere else: it is written over after a
// checkpoint alone.
TEST_F(JournalTest, AHalfIsUsedAgainAfterACheckpointAlone) {
  Open();
  CommitHalf(0);
  EXPECT_EQ(checkpoint_count_, 0);
  checkpoint_answer_ = Status::Full("the logs have no room");
  CommitHalf(half_batches_);
  const std::string value = ValueOf(1, 1);
  EXPECT_EQ(Commit(2 * half_batches_, &value).code(), Code::kFull);
  EXPECT_GE(checkpoint_count_, 1);
  EXPECT_EQ(Replay().EndSequence(0), 2 * half_batches_) << "both halves are as they were";
  checkpoint_answer_ = Status::Ok();
  EXPECT_TRUE(Commit(2 * half_batches_, &value).ok()) << "the logs have taken it";
  EXPECT_TRUE(Commit(2 * half_batches_ + 1, &value).ok());
  EXPECT_EQ(Replay().Find(0, 0), nullptr) << "the first half has begun anew";
  EXPECT_NE(Replay().Find(0, 2 * half_batches_ + 1), nullptr);
}

// The records are staged and counted, so a checkpoint brings them into the logs.
TEST_F(JournalTest, TheLogsTakeWhatTheJournalHasNoRoomFor) {
  Open();
  const std::string value = ValueOf(0, 1);
  FailingCalls failing(CallKind::kPwrite, format::kJournalName, ENOSPC);
  const ScopedHook hook(&failing);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(Commit(i, &value).ok());
    EXPECT_EQ(checkpoint_count_, i);
    EXPECT_FALSE(journal_->must_checkpoint());
  }
  EXPECT_EQ(journal_->durable_record_count(), 3u);
  EXPECT_EQ(failure_count_, 0);
}

// Records of a batch that was lost stand nowhere in the journal, but staged: those behind them may
// be acknowledged once the logs hold both.
TEST_F(JournalTest, WhatNeitherTakesComesBeforeAllThatFollows) {
  Open();
  const std::string value = ValueOf(0, 1);
  checkpoint_answer_ = Status::Full("nor have the logs");
  FailingCalls failing(CallKind::kPwrite, format::kJournalName, ENOSPC);
  {
    const ScopedHook hook(&failing);
    EXPECT_EQ(Commit(0, &value).code(), Code::kFull);
  }
  EXPECT_EQ(checkpoint_count_, 1);
  EXPECT_TRUE(journal_->must_checkpoint());
  EXPECT_EQ(Commit(1, &value).code(), Code::kFull);
  EXPECT_EQ(checkpoint_count_, 2);
  EXPECT_EQ(journal_->flush_count(), 0u);
  checkpoint_answer_ = Status::Ok();
  EXPECT_TRUE(Commit(2, &value).ok());
  EXPECT_FALSE(journal_->must_checkpoint());
  EXPECT_TRUE(Commit(3, &value).ok());
  EXPECT_EQ(checkpoint_count_, 3) << "one that succeeded is enough";
  EXPECT_EQ(journal_->flush_count(), 1u);
  EXPECT_EQ(failure_count_, 0);
}

TEST_F(JournalTest, AFailedFlushIsFinalAndToldOnce) {
  Open();
  const std::string value = ValueOf(0, 1);
  FailingCalls failing(CallKind::kFdatasync, format::kJournalName, ENOSPC);
  {
    const ScopedHook hook(&failing);
    EXPECT_EQ(Commit(0, &value).code(), Code::kIOError) << "whatever the reason";
  }
  const Status later = Commit(1, &value);
  EXPECT_EQ(later.code(), Code::kIOError);
  EXPECT_EQ(later.error(), ENOSPC) << "the reason of the first one";
  EXPECT_TRUE(later.path().ends_with(format::kJournalName)) << later.path();
  EXPECT_EQ(failing.count, 1) << "nothing is flushed any more";
  EXPECT_EQ(failure_count_, 1);
  EXPECT_EQ(journal_->durable_record_count(), 0u);
}

TEST_F(JournalTest, AJournalOfAnotherSizeIsMadeAnewInZeros) {
  Open();
  const std::string value = ValueOf(0, 1);
  ASSERT_TRUE(Commit(0, &value).ok());
  journal_.reset();
  EXPECT_EQ(Replay().EndSequence(0), 1u);
  // One byte longer.
  Overwrite(dir_.Join(format::kJournalName), "x", 1, kMinJournalBytes);
  Open();
  EXPECT_EQ(Replay().EndSequence(0), 0u);
}

}  // namespace
}  // namespace engine_race::test

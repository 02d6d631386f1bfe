#include "engine_race/log/row_mover.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "test/log/batch_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kRow = 256;

class RowBeginTest : public ::testing::Test {
 protected:
  RowBeginTest() { options_.bucket_capacity_records = 8 * kRow; }

  // Appends keys [begin, end) of bucket 0 in version 1.
  static void Append(BucketLog* log, uint64_t begin, uint64_t end) {
    for (uint64_t key = begin; key < end; ++key) {
      ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok()) << key;
    }
  }
  static std::vector<KeyRecord> RecordsOfRow(BucketLog* log, uint32_t row) {
    std::vector<KeyRecord> records = RecordsOf(log, 0);
    std::erase_if(records, [row](const KeyRecord& each) { return each.slot / kRow != row; });
    return records;
  }
  // Moves records of bucket 0 to a row of their own.
  static Status Move(BucketLog* log, std::vector<KeyRecord> records) {
    RowMover& mover = log->mover();
    const uint64_t number = log->RecordCount(0);
    uint32_t row = 0;
    ENGINE_RACE_RETURN_IF_ERROR(mover.Begin(0));
    ENGINE_RACE_RETURN_IF_ERROR(mover.TakeRow(0, /*kept_count=*/0, &row));
    Region value;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kValueBytes, /*huge_pages=*/false, &value));
    for (size_t i = 0; i < records.size(); ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(log->ReadValue(0, records[i].slot, value.data()));
      ENGINE_RACE_RETURN_IF_ERROR(mover.WriteValues(0, row * kRow + i, 1, value.data()));
    }
    return mover.Publish(0, row, number, records);
  }
  // Waits for a while, in which `done` does not come where the code is right.
  static void GiveTimeUntil(const std::atomic<bool>& done) {
    for (int i = 0; i < 200 && !done; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  TempDir dir_{FastParent()};
  Options options_ = TinyOptions();
};

TEST_F(RowBeginTest, WhatWasReservedIsPunchedBeforeAppendsTakeIt) {
  const auto log = OpenLog(options_, dir_.path());
  // So many groups at once that space is reserved for the next ones.
  Append(log.get(), 0, 200);
  WriteBatch batch;
  for (uint64_t key = 200; key < 220; ++key) PutIn(&batch, 0, key, 1);
  ASSERT_TRUE(log->Write(batch).ok());
  Append(log.get(), 220, kRow - 8);
  std::atomic<bool> appended{false};
  std::thread writer;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0 &&
        !writer.joinable()) {
      writer = std::thread([&] {
        Append(log.get(), kRow - 8, 2 * kRow);
        appended = true;
      });
      GiveTimeUntil(appended);
    }
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    ASSERT_TRUE(log->mover().Claim(0));
    ASSERT_TRUE(log->mover().Begin(0).ok());
    log->mover().Unclaim(0);
  }
  ASSERT_TRUE(writer.joinable()) << "nothing had been reserved";
  writer.join();
  EXPECT_EQ(ContentOf(log.get()).size(), 2 * kRow);
}

TEST_F(RowBeginTest, AMoveWaitsForTheBatchThatHoldsTheBucket) {
  options_.staging_mode = StagingMode::kWritten;
  const auto log = OpenLog(options_, dir_.path());
  Append(log.get(), 0, kRow + 8);
  const std::vector<KeyRecord> records = RecordsOfRow(log.get(), 0);
  TellingListener listener;
  Attach(log.get(), &listener);
  std::atomic<bool> moved{false};
  Status move;
  std::thread mover;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kPwrite && !mover.joinable() &&
        PathOf(*call).ends_with(format::kStagingKeysName)) {
      mover = std::thread([&] {
        move = Move(log.get(), records);
        moved = true;
      });
      GiveTimeUntil(moved);
    }
    return call->Proceed();
  });
  WriteBatch batch;
  for (uint64_t n = 1000; n < 1003; ++n) PutIn(&batch, 0, n, 1);
  {
    const ScopedHook hook(&watch);
    ASSERT_TRUE(log->Write(batch).ok());
  }
  ASSERT_TRUE(mover.joinable());
  mover.join();
  ASSERT_TRUE(move.ok()) << move.ToString();
  ASSERT_EQ(listener.appends.size(), 3 + kRow);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(listener.appends[i].second.key, 1000 + i);
  Detach(log.get());
}

TEST_F(RowBeginTest, AnOpeningSettlesTheMovesOfAnEarlierOne) {
  {
    const auto log = OpenLog(options_, dir_.path());
    Append(log.get(), 0, kRow + 8);
    ASSERT_TRUE(Move(log.get(), RecordsOfRow(log.get(), 0)).ok());
  }
  const auto log = OpenLog(options_, dir_.path());
  BucketCut cut;
  ASSERT_TRUE(log->LookAtBucket(0, 0, &cut).ok());
  ASSERT_EQ(cut.table.rows().back().kind, format::RowKind::kMoving);
  ASSERT_TRUE(log->mover().Settle().ok());
  ASSERT_TRUE(log->LookAtBucket(0, 0, &cut).ok());
  EXPECT_EQ(cut.table.rows().back().kind, format::RowKind::kMoved);
}

// A batch of a full region is refused before it is committed, not in the middle.
TEST_F(RowBeginTest, ALargeBatchThatHasNoRowsChangesNothing) {
  {
    const auto log = OpenLog(options_, dir_.path());
    Append(log.get(), 0, 6 * kRow - 8);
    ASSERT_TRUE(log->mover().Begin(0).ok());
    WriteBatch batch;
    for (uint64_t n = 0; n < 2 * kRow; ++n) PutIn(&batch, 0, n, 2);
    EXPECT_EQ(log->Write(batch).code(), Code::kFull);
    EXPECT_EQ(log->RecordCount(0), 6 * kRow - 8);
    Append(log.get(), 0, 16);
  }
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->RecordCount(0), 6 * kRow + 8);
}

}  // namespace
}  // namespace engine_race::test

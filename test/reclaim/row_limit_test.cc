// The rows that a bucket may have: few for its live records, and more where writers find no room.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <thread>

#include "engine_race/reclaim/reclaimer.h"
#include "test/eventually.h"
#include "test/log/batch_test_util.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/log_test_util.h"
#include "test/reclaim/cleaner_fixture.h"

namespace engine_race::test {
namespace {

// Nothing is cleaned but for writers that find no room.
class RowLimitTest : public ::testing::Test {
 protected:
  RowLimitTest() : log_(OpenLog(options_, dir_.path())), reclaimer_(options_, log_.get()) {}

  // False: there is no room.
  bool Put(uint64_t key, uint64_t version = 1) {
    const Status put = log_->Append(key, ValueOf(key, version).data());
    EXPECT_TRUE(put.ok() || put.code() == Code::kFull) << put.ToString();
    return put.ok();
  }
  void PutWithHelp(uint64_t key, uint64_t version = 1) {
    bool freed = true;
    while (!Put(key, version)) {
      ASSERT_TRUE(freed && !HasFailure());
      ASSERT_TRUE(reclaimer_.MakeSpace({{0, {1, 1}}}, /*disk_is_full=*/false, &freed).ok());
      ++help_count_;
    }
  }
  uint64_t RowCount() const { return log_->SlotEnd(0) / kRow; }

  const TempDir dir_{FastParent()};
  const Options options_ = Rows(64);
  const std::unique_ptr<BucketLog> log_;
  Reclaimer reclaimer_;
  uint64_t help_count_ = 0;
};

TEST_F(RowLimitTest, FewLiveRecordsAreOverwrittenInFewRows) {
  constexpr uint64_t kKeys = kRow / 4;
  for (uint64_t i = 0; i < 4 * kRow; ++i) ASSERT_TRUE(Put(i % kKeys));
  ASSERT_TRUE(reclaimer_.Compact({}).ok());
  const uint64_t row_count = RowCount();
  for (uint64_t i = 0; i < 40 * kRow; ++i) ASSERT_NO_FATAL_FAILURE(PutWithHelp(i % kKeys));
  EXPECT_LE(RowCount(), row_count + 1);
  EXPECT_GT(help_count_, 0U);
}

// It waits no longer, though the bucket is still claimed.
TEST_F(RowLimitTest, AReleaseGivesRoomToAWriterThatWaitsForTheClaim) {
  for (uint64_t i = 0; i < 4 * kRow; ++i) ASSERT_TRUE(Put(i % kRow));
  ASSERT_TRUE(reclaimer_.Compact({}).ok());
  while (Put(0)) continue;
  RowMover& mover = log_->mover();
  ASSERT_FALSE(mover.HasRoom(0, 1));
  ASSERT_TRUE(mover.AwaitClaim(0));
  std::atomic<bool> waits{false};
  std::atomic<bool> has_room{false};
  std::thread writer([&] {
    waits = true;
    has_room = !mover.AwaitClaim(0, 1);
  });
  EXPECT_TRUE(Eventually([&] { return waits.load(); }));
  BucketCleaner cleaner(log_.get());
  BucketUse use;
  EXPECT_TRUE(cleaner.MakeSpace(0, &use).ok());
  EXPECT_TRUE(mover.Settle().ok());
  mover.Release();
  EXPECT_TRUE(Eventually([&] { return has_room.load(); }));
  mover.Unclaim(0);
  writer.join();
}

// All records are live: no cleaning makes room.
TEST_F(RowLimitTest, ABucketOfLiveRecordsGrows) {
  for (uint64_t i = 0; i < 4 * kRow; ++i) ASSERT_TRUE(Put(i % kRow));
  ASSERT_TRUE(reclaimer_.Compact({}).ok());
  for (uint64_t key = 0; key < 40 * kRow; ++key) ASSERT_NO_FATAL_FAILURE(PutWithHelp(key));
  EXPECT_GE(RowCount(), 40U);
  EXPECT_GT(help_count_, 0U);
  EXPECT_LE(help_count_, 2 * 40U) << "a row at a time";
}

// The slots of dead records cannot be filled again for as long as somebody may come to them.
TEST_F(RowLimitTest, ABucketGrowsWhileACutHoldsItsDeadRecords) {
  constexpr uint64_t kKeys = kRow / 4;
  for (uint64_t i = 0; i < 4 * kRow; ++i) ASSERT_TRUE(Put(i % kKeys));
  ASSERT_TRUE(reclaimer_.Compact({}).ok());
  const uint64_t row_count = RowCount();
  BucketCut cut;
  ASSERT_TRUE(log_->reader().LookAtBucket(0, /*first_sequence=*/0, &cut).ok());
  for (uint64_t i = 0; i < 12 * kRow; ++i) ASSERT_NO_FATAL_FAILURE(PutWithHelp(i % kKeys));
  EXPECT_GE(RowCount(), 12U);
  EXPECT_GT(RowCount(), row_count);
}

// Its entries cannot be read, and nothing of it can be freed.
TEST_F(RowLimitTest, ABucketThatCannotBeCleanedGrows) {
  constexpr uint64_t kKeys = kRow / 4;
  for (uint64_t i = 0; i < 4 * kRow; ++i) ASSERT_TRUE(Put(i % kKeys));
  ASSERT_TRUE(reclaimer_.Compact({}).ok());
  FailingCalls failing(CallKind::kPread, "/key_00", EIO);
  const ScopedHook hook(&failing);
  for (uint64_t i = 0; i < 8 * kRow; ++i) ASSERT_NO_FATAL_FAILURE(PutWithHelp(i % kKeys));
  EXPECT_GT(failing.count, 0);
  EXPECT_GE(RowCount(), 8U);
}

// What a cleaning gives up stays where it is, in each bucket.
TEST_F(RowLimitTest, NoBucketGrowsWhereNothingCanBeSettled) {
  constexpr uint64_t kKeys = kRow / 4;
  for (uint64_t i = 0; i < 4 * kRow; ++i) ASSERT_TRUE(Put(i % kKeys));
  ASSERT_TRUE(reclaimer_.Compact({}).ok());
  // Compact leaves gaps in the last row. They can be filled once later records are synced.
  for (int i = 0; i < 2; ++i) {
    for (uint64_t j = 0; Put(j % kKeys); ++j) ASSERT_LT(j, 64 * kRow);
    ASSERT_TRUE(log_->Sync().ok());
  }
  const uint64_t row_count = RowCount();
  {
    FailingCalls failing(CallKind::kPread, format::kRowsName, EIO);
    const ScopedHook hook(&failing);
    bool freed = false;
    const Status made = reclaimer_.MakeSpace({{0, {1, 1}}}, /*disk_is_full=*/false, &freed);
    ASSERT_EQ(made.code(), Code::kIOError) << made.ToString();
    EXPECT_GT(failing.count, 0);
    EXPECT_FALSE(Put(0));
  }
  ASSERT_NO_FATAL_FAILURE(PutWithHelp(0));
  EXPECT_EQ(RowCount(), row_count);
}

// Each row has fewer dead records than are worth a run, and together they are several rows.
TEST_F(RowLimitTest, AFullRegionOfThinlySpreadDeadRecordsTakesMore) {
  constexpr uint64_t kDeadStep = 16;  // one record in so many is overwritten later
  Content held;
  for (uint64_t i = 0; i < 4 * kRow; ++i) ASSERT_TRUE(Put(i % kRow, i));
  ASSERT_TRUE(reclaimer_.Compact({}).ok());
  for (uint64_t key = 0; key < kRow; ++key) held[key] = 3 * kRow + key;
  uint64_t next_key = kRow;
  for (uint64_t version = 4 * kRow; held.size() < 60 * kRow; ++version) {
    const bool overwrites = version % kDeadStep == 0;
    const uint64_t key = overwrites ? next_key - kRow : next_key++;
    ASSERT_NO_FATAL_FAILURE(PutWithHelp(key, version)) << held.size() << " live records";
    held[key] = version;
  }
  EXPECT_TRUE(ContentOf(log_.get()) == held);
}

}  // namespace
}  // namespace engine_race::test

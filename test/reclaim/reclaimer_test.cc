// Reclaimer: what it does for writers that find no room.
#include "engine_race/reclaim/reclaimer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>

#include "test/eventually.h"
#include "test/faults/call_watch.h"
#include "test/faults/staging_test_util.h"
#include "test/log/batch_test_util.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

class PrepareListener final : public AppendListener {
 public:
  Status Prepare(uint32_t bucket) override { return on_prepare(bucket); }
  void OnAppend(uint32_t, const KeyRecord&) noexcept override {}
  bool HasViewIn(uint64_t, uint64_t) const noexcept override { return has_view(); }
  std::function<Status(uint32_t)> on_prepare = [](uint32_t) { return Status::Ok(); };
  std::function<bool()> has_view = [] { return false; };
};

// Its thread cleans other buckets, and this one once the batch has ended.
TEST(ReclaimerTest, ALargeBatchKeepsNoOtherBucketFromBeingCleaned) {
  constexpr uint64_t kAppends = 2048;
  constexpr uint64_t kKeys = 16;
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  PrepareListener listener;
  Attach(log.get(), &listener);
  Reclaimer reclaimer(TinyLogOptions(), log.get());
  ASSERT_TRUE(reclaimer.Start().ok());
  WriteBatch batch;
  for (uint64_t i = 0; i < kAppends; ++i) PutIn(&batch, 0, i % kKeys, i);
  PutIn(&batch, 3, 0, 1);
  // The batch holds buckets 0 and 3, and has appended all of the former.
  bool cleaned = false;
  listener.on_prepare = [&](uint32_t number) {
    if (number != 3) return Status::Ok();
    // Once the bucket is cleaned it takes no more rows than it needs.
    for (uint64_t i = 0; i < kAppends; ++i) {
      const uint64_t key = KeyIn(1, i % kKeys);
      const Status put = log->Append(key, ValueOf(key, i).data());
      EXPECT_TRUE(put.ok() || log->HasRows(1)) << put.ToString();
    }
    cleaned = Eventually([&] { return log->HasRows(1); });
    EXPECT_FALSE(log->HasRows(0));
    return Status::Ok();
  };
  EXPECT_TRUE(log->Write(batch).ok());
  EXPECT_TRUE(cleaned);
  EXPECT_TRUE(Eventually([&] { return log->HasRows(0); }));
  reclaimer.Stop();
  Detach(log.get());
}

// Beside other threads that release slots each round seems to have won some space.
TEST(ReclaimerTest, CompactEndsThoughEachRoundReleasesSome) {
  constexpr uint64_t kRow = 256;
  constexpr uint64_t kMaxRounds = 8;
  const TempDir dir{FastParent()};
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  std::atomic<bool> releases_one{false};
  PrepareListener listener;
  listener.has_view = [&] { return !releases_one.exchange(false); };
  Attach(log.get(), &listener);
  for (uint64_t i = 0; i < 14 * kRow; ++i) {
    const uint64_t key = KeyIn(0, i % 16);
    ASSERT_TRUE(log->Append(key, ValueOf(key, i).data()).ok());
  }
  Reclaimer reclaimer(TinyLogOptions(), log.get());
  ASSERT_TRUE(reclaimer.Compact({}).ok());
  const RowMover& mover = log->mover();
  ASSERT_EQ(mover.released_bytes(), 0u);
  ASSERT_GT(mover.unreleased_bytes(), (kMaxRounds + 2) * kRow * kValueBytes);
  ASSERT_TRUE(log->Append(KeyIn(1, 0), ValueOf(KeyIn(1, 0), 1).data()).ok());
  CallWatch full([&](SystemCall* call) {
    const bool is_refused =
        call->kind == CallKind::kPwrite && PathOfFd(call->fd).find("/value_") != std::string::npos;
    if (!is_refused) return call->Proceed();
    releases_one = true;
    return Refuse(ENOSPC);
  });
  const ScopedHook scope(&full);
  EXPECT_EQ(reclaimer.Compact({}).code(), Code::kFull);
  EXPECT_EQ(mover.released_bytes(), kMaxRounds * kRow * kValueBytes);
  Detach(log.get());
}

// Three rows cannot be used in any case. Where live records leave as much, others may be dead, and
// the last row is kept to move records.
TEST(ReclaimerTest, ALargeWriteGetsTheLastRowOnlyIfLiveRecordsLeaveLessThanThree) {
  constexpr uint64_t kRow = 256;
  Options options = TinyLogOptions();
  options.bucket_capacity_records = 6 * kRow;
  for (const uint64_t live_count : {3 * kRow, 3 * kRow + 1}) {
    const TempDir dir;
    const std::unique_ptr<BucketLog> log = OpenLog(options, dir.path());
    for (uint64_t i = 0; i < live_count; ++i) {
      ASSERT_TRUE(log->Append(KeyIn(0, i), ValueOf(KeyIn(0, i), 1).data()).ok());
    }
    Reclaimer reclaimer(options, log.get());
    ASSERT_TRUE(reclaimer.Start().ok());
    const uint64_t count = 6 * kRow - live_count;
    ASSERT_FALSE(log->mover().HasRoom(0, count));
    bool freed = false;
    EXPECT_TRUE(reclaimer.MakeSpace({{0, {count, 1}}}, /*disk_is_full=*/false, &freed).ok());
    EXPECT_EQ(freed, live_count > 3 * kRow);
    EXPECT_EQ(log->mover().HasRoom(0, count), live_count > 3 * kRow);
  }
}

TEST(ReclaimerTest, ACompactThatIsCancelledGivesBackTheStagingOfWhatItHasDone) {
  const TempDir dir(FastParent());
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  for (const uint32_t bucket : {0u, 1u}) {
    const uint64_t key = KeyIn(bucket, 0);
    ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
  }
  const auto staged = [&](uint32_t bucket) {
    std::string value(kValueBytes, '\0');
    const uint64_t offset = log->geometry().ValuePlaceOffset(bucket, /*place=*/0);
    EXPECT_TRUE(log->files().staged_values.Read(value.data(), value.size(), offset).ok());
    return value != std::string(kValueBytes, '\0');
  };
  Reclaimer reclaimer(TinyLogOptions(), log.get());
  const Status compacted =
      reclaimer.Compact([](uint64_t done_count, uint64_t) { return done_count == 0; });
  EXPECT_EQ(compacted.code(), Code::kIncomplete);
  EXPECT_FALSE(staged(0));
  EXPECT_TRUE(staged(1));
}

// Deletions of most records leave as many rows as the bucket may always have.
TEST(ReclaimerTest, ASparseBucketIsCompactedWhenNothingIsWritten) {
  constexpr uint64_t kRecords = 4096;
  constexpr uint64_t kKept = 10;
  const TempDir dir(FastParent());
  Options options = TinyLogOptions();
  options.bucket_capacity_records = 4 * kRecords;
  const std::unique_ptr<BucketLog> log = OpenLog(options, dir.path());
  Reclaimer reclaimer(options, log.get(), std::chrono::milliseconds(1));
  ASSERT_TRUE(reclaimer.Start().ok());
  const auto append = [&](uint64_t key, const char* value) {
    while (log->Append(key, value).code() == Code::kFull) {
      bool freed = false;
      ASSERT_TRUE(reclaimer.MakeSpace({{0, {1, 1}}}, /*disk_is_full=*/false, &freed).ok());
    }
  };
  for (uint64_t i = 0; i < kRecords; ++i) append(KeyIn(0, i), ValueOf(KeyIn(0, i), 1).data());
  for (uint64_t i = kKept; i < kRecords; ++i) append(KeyIn(0, i), nullptr);
  const auto held_count = [&] {
    uint64_t count = 0;
    BucketCut cut;
    EXPECT_TRUE(log->reader().LookAtBucket(0, /*first_sequence=*/0, &cut).ok());
    for (uint64_t slot = 0; slot < cut.slot_end(); ++slot) count += cut.Holds(slot);
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return held_count() == kKept; })) << held_count();
}

// On a full disk a batch may fail before it comes to the bucket.
TEST(ReclaimerTest, NothingIsFreedForADamagedBucket) {
  const TempDir dir;
  uint64_t store_id = 0;
  {
    const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
    ASSERT_TRUE(log->Append(0, ValueOf(0, 1).data()).ok());
    store_id = log->files().identity.store_id;
  }
  SetWord(dir.path(), store_id + 1, 0, format::WordKind::kRecords, 1);
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  ASSERT_TRUE(log->BucketDamaged(0));
  Reclaimer reclaimer(TinyLogOptions(), log.get());
  bool freed = true;
  EXPECT_TRUE(reclaimer.MakeSpace({{0, {1, 1}}}, /*disk_is_full=*/false, &freed).ok());
  EXPECT_FALSE(freed);
}

}  // namespace
}  // namespace engine_race::test

// BucketCleaner beside what goes wrong: damaged entries, failed reads, a loss of power.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

#include "engine_race/log/row_file.h"
#include "test/faults/call_watch.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/reclaim/cleaner_fixture.h"

namespace engine_race::test {
namespace {

class CleanerFaultsTest : public BucketCleanerTest {
 protected:
  // Changes the number in a key entry. Done again it mends it.
  void ToggleEntry(uint64_t slot) {
    const std::string path = dir_.Join("key_00");
    const uint64_t offset = log_->slots().LocateKeys(0, slot).offset + sizeof(uint64_t);
    uint64_t check = 0;
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    ASSERT_TRUE(file.read(reinterpret_cast<char*>(&check), sizeof(check)).good());
    check ^= 0x123456789abcdef0;
    Overwrite(path, &check, sizeof(check), offset);
  }
};

// After a loss of power the bucket may end with the last record that was durable when slots were
// freed. Its run tells how many records there are.
TEST_F(CleanerFaultsTest, AfterALossOfPowerTheLastRunIsThere) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  for (uint64_t i = 0; i < kRow; ++i) ASSERT_NO_FATAL_FAILURE(Put(0));
  const uint64_t end = count_;
  const uint64_t first_lost = next_key_;
  ASSERT_NO_FATAL_FAILURE(PutNew(10));
  static_cast<void>(Clean(0));
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_TRUE(log_->HasRows(0));
  const uint64_t store_id = log_->store_id();
  cleaner_.reset();
  log_.reset();
  LosePower(dir_.path(), store_id);
  for (int opening = 0; opening < 2; ++opening) {
    SCOPED_TRACE(opening);
    ASSERT_NO_FATAL_FAILURE(Open());
    EXPECT_EQ(log_->RecordCount(0), end);
    ASSERT_FALSE(log_->BucketDamaged(0));
    held_.erase(held_.lower_bound(first_lost), held_.end());
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  }
}

// The damaged entry may be a newer record of any key. It is still newer when it can be read again.
TEST_F(CleanerFaultsTest, WhatIsOlderThanADamagedEntryIsNotMoved) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  const uint64_t damaged = count_;
  ASSERT_NO_FATAL_FAILURE(Put(kRow + 31));
  const uint64_t newer = next_key_;
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  for (uint64_t i = 0; i < kRow / 2; ++i) {
    ASSERT_NO_FATAL_FAILURE(Put(kRow + 2 * i));
    ASSERT_NO_FATAL_FAILURE(Put(newer + kRow + 2 * i));
  }
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  ASSERT_NO_FATAL_FAILURE(ToggleEntry(damaged));
  static_cast<void>(Clean(0));
  const auto given_up = GivenUp();
  EXPECT_FALSE(given_up.empty()) << "newer records are moved";
  for (const uint64_t slot : given_up) EXPECT_GT(slot, damaged);
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ToggleEntry(damaged));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// The damaged entry may be an older record of any key, which must not come back.
TEST_F(CleanerFaultsTest, BesideADamagedEntryTombstonesStay) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  const uint64_t damaged = kRow + 3;
  ASSERT_NO_FATAL_FAILURE(ToggleEntry(damaged));
  ASSERT_NO_FATAL_FAILURE(Delete(damaged));
  for (uint64_t i = 0; i < kRow; ++i) ASSERT_NO_FATAL_FAILURE(Put(0));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(Clean(0));
    ASSERT_NO_FATAL_FAILURE(Settle());
  }
  ASSERT_NO_FATAL_FAILURE(ToggleEntry(damaged));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// A tombstone that was superseded is no newer than the put that came after it.
TEST_F(CleanerFaultsTest, BesideADamagedEntryDeadTombstonesAreNotMoved) {
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  ASSERT_NO_FATAL_FAILURE(ToggleEntry(3));
  for (uint64_t i = 32; i < kRow; ++i) {
    ASSERT_NO_FATAL_FAILURE(Delete(i));
    ASSERT_NO_FATAL_FAILURE(Put(0));
  }
  for (uint64_t i = 32; i < kRow; ++i) ASSERT_NO_FATAL_FAILURE(Put(i));
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(Clean(0));
    ASSERT_NO_FATAL_FAILURE(Settle());
    ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  }
  ASSERT_NO_FATAL_FAILURE(ToggleEntry(3));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// A cleaner is kept for later: what it has looked at must not wait for that.
TEST_F(CleanerFaultsTest, ACleaningThatFailedHoldsNothing) {
  ASSERT_NO_FATAL_FAILURE(PutNew(8 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(3 * kRow, 4 * kRow));
  ASSERT_NO_FATAL_FAILURE(PutNew(kRow));
  BucketCleaner failed(log_.get());
  ASSERT_TRUE(log_->mover().Claim(0));
  {
    FailingCalls failing(CallKind::kPread, "/key_00", EIO);
    const ScopedHook hook(&failing);
    BucketUse use;
    EXPECT_EQ(failed.Clean(0, 30, &use).code(), Code::kIOError);
    EXPECT_EQ(failed.MakeSpace(0, &use).code(), Code::kIOError);
  }
  log_->mover().Unclaim(0);
  static_cast<void>(Clean(30));
  ASSERT_FALSE(GivenUp().empty());
  ASSERT_NO_FATAL_FAILURE(Settle());
  EXPECT_EQ(log_->mover().unreleased_bytes(), 0u);
  EXPECT_FALSE(log_->mover().HasWaiting(0));
}

// They are read along with the live values around them.
TEST_F(CleanerFaultsTest, DeadValuesNeedNotBeReadable) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(kRow, 2 * kRow, 2));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  const uint64_t dead = kRow + kRow / 2;
  const auto offset = static_cast<off_t>(log_->slots().LocateValues(0, dead).offset);
  int count = 0;
  CallWatch unreadable([&](SystemCall* call) {
    if (call->kind != CallKind::kPread || call->offset > offset ||
        call->offset + static_cast<off_t>(call->size) <= offset ||
        PathOf(*call).find("/value_") == std::string::npos) {
      return call->Proceed();
    }
    ++count;
    errno = EIO;
    return -1L;
  });
  {
    const ScopedHook hook(&unreadable);
    EXPECT_GE(Clean(0).moved_count, kRow / 2);
  }
  EXPECT_EQ(count, 1);
  EXPECT_EQ(GivenUp().count(dead + 1), 1U);
  ASSERT_NO_FATAL_FAILURE(Settle());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

}  // namespace
}  // namespace engine_race::test

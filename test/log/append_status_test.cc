#include "engine_race/log/append_status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

TEST(AppendStatusTest, AFailureAloneSaysThatNothingWasAppended) {
  EXPECT_TRUE(AppendStatus(Status::Ok()).appended());
  EXPECT_FALSE(AppendStatus(Status::Full("disk")).appended());
  EXPECT_TRUE(AppendStatus::Appended(Status::Ok()).appended());
  EXPECT_TRUE(AppendStatus::Appended(Status::Ok()).ok());
  const AppendStatus lost = AppendStatus::Appended(Status::Full("disk"));
  EXPECT_TRUE(lost.appended());
  EXPECT_EQ(lost.code(), Code::kFull);
  EXPECT_EQ(lost.message(), "disk (written, but not durable)");
}

class DurableAppendTest : public testing::TestWithParam<SyncMode> {
 protected:
  AppendStatus Append(uint64_t key) { return log_->Append(key, ValueOf(key, 1).data()); }

  const TempDir dir_;
  std::unique_ptr<BucketLog> log_ = OpenLog(TinyLogOptions(GetParam()), dir_.path());
};

INSTANTIATE_TEST_SUITE_P(DurableModes, DurableAppendTest,
                         testing::Values(SyncMode::kEveryWrite, SyncMode::kGroup),
                         [](const auto& mode) {
                           return mode.param == SyncMode::kGroup ? "Group" : "EveryWrite";
                         });

// A durable record needs its group as little as any other one.
TEST_P(DurableAppendTest, IsOkAlsoIfItsGroupCannotBeWritten) {
  AppendMany(log_.get(), 0, 3);
  FailingCalls full(CallKind::kPwrite, "/value_00", ENOSPC);
  const ScopedHook scope(&full);
  EXPECT_TRUE(Append(3).ok());
  EXPECT_EQ(full.count, 1);
  EXPECT_EQ(log_->durable_write_count(), 4u);
  const AppendStatus refused = Append(4);
  EXPECT_EQ(refused.code(), Code::kFull);
  EXPECT_FALSE(refused.appended());
  EXPECT_EQ(log_->RecordCount(0), 4u);
}

// A record that neither journal nor logs have room for is durable once any later write or Sync is
// acknowledged: not before, and without being appended again.
TEST_P(DurableAppendTest, WhatFoundNoRoomIsDurableOnceALaterCallIsOk) {
  CallWatch full([](SystemCall* call) {
    const std::string path = PathOf(*call);
    const bool met = call->kind == CallKind::kPwrite &&
                     (path.ends_with(format::kJournalName) || path.ends_with("/key_00"));
    if (!met) return call->Proceed();
    errno = ENOSPC;
    return -1L;
  });
  for (const bool by_sync : {true, false}) {
    const uint64_t before = log_->RecordCount(0);
    {
      const ScopedHook scope(&full);
      const AppendStatus lost = Append(before);
      EXPECT_EQ(lost.code(), Code::kFull);
      EXPECT_TRUE(lost.appended());
      const AppendStatus refused = Append(before + 1);
      EXPECT_EQ(refused.code(), Code::kFull);
      EXPECT_FALSE(refused.appended());
      EXPECT_EQ(log_->Sync().code(), Code::kFull);
    }
    EXPECT_EQ(log_->RecordCount(0), before + 1);
    EXPECT_EQ(log_->SyncedWatermark(0), before);
    EXPECT_TRUE(by_sync ? log_->Sync().ok() : Append(before + 1).ok());
    EXPECT_EQ(log_->SyncedWatermark(0), log_->RecordCount(0));
  }
  const uint64_t count = log_->RecordCount(0);
  EXPECT_EQ(count, 3u);
  const uint64_t store_id = log_->store_id();
  log_.reset();
  LosePower(dir_.path(), store_id);
  const auto log = OpenLog(TinyLogOptions(GetParam()), dir_.path());
  ExpectHoldsExactly(log.get(), count);
}

// After a failed flush nobody knows what the device holds. That is final.
TEST_P(DurableAppendTest, AFailedFlushOfTheJournalEndsWriting) {
  {
    FailingCalls broken(CallKind::kFdatasync, format::kJournalName, EIO);
    const ScopedHook scope(&broken);
    const AppendStatus lost = Append(0);
    EXPECT_EQ(lost.code(), Code::kIOError);
    EXPECT_TRUE(lost.appended());
  }
  const AppendStatus refused = Append(1);
  EXPECT_EQ(refused.code(), Code::kIOError);
  EXPECT_FALSE(refused.appended());
  EXPECT_EQ(log_->RecordCount(0), 1u);
}

}  // namespace
}  // namespace engine_race::test

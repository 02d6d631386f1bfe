#include "engine_race/log/power_recovery.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine_race/log/page_cache.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kPageCache = 99;

// A store of which nothing is synced, opened but not recovered.
class PowerRecoveryTest : public ::testing::Test {
 protected:
  void MakeStore(uint64_t count) {
    LogParts parts(TinyOptions(), dir_.path());
    parts.AppendKeys(0, count);
  }
  void Open() {
    context_ = std::make_unique<LogContext>(TinyOptions(), OpenedFiles(TinyOptions(), dir_.path()),
                                            numa::StorePlacement());
    context_->staging.Start(StagingMode::kAuto, LogFn(), Placement());
    writer_ = std::make_unique<LogWriter>(context_.get());
    ASSERT_TRUE(context_->staging.ReadCounts(&states_).ok());
  }
  Status Run() {
    const JournalReplay no_journal;
    return PowerRecovery(context_.get(), writer_.get(), no_journal)
        .Run(kPageCache, &states_, &readable_);
  }

  const TempDir dir_{FastParent()};
  std::unique_ptr<LogContext> context_;
  std::unique_ptr<LogWriter> writer_;
  std::vector<BucketState> states_;
  bool readable_ = false;
};

TEST_F(PowerRecoveryTest, WhatVerifiesIsSyncedAndTheCountsSaySo) {
  MakeStore(263);
  Open();
  ASSERT_EQ(states_[0].synced_watermark, 0u);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, 263u);
  EXPECT_EQ(states_[0].synced_watermark, 263u);
  EXPECT_EQ(states_[0].logged_value_watermark, 260u);
  EXPECT_EQ(states_[0].logged_key_watermark, 256u);
  std::vector<BucketState> found;
  ASSERT_TRUE(context_->staging.ReadCounts(&found).ok());
  for (const BucketState& state : found) EXPECT_EQ(state.page_cache_id, kPageCache);
  EXPECT_EQ(found[0].record_count, 263u);
  EXPECT_EQ(found[0].synced_watermark, 263u);
}

TEST_F(PowerRecoveryTest, TheBucketEndsAtTheFirstRecordThatDoesNotVerify) {
  MakeStore(263);
  Open();
  const std::string zeros(kValueBytes, '\0');
  Overwrite(dir_.Join("value_00"), zeros.data(), zeros.size(),
            context_->files.values.Locate(0, 7).offset);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(states_[0].record_count, 7u);
  Region page;
  ASSERT_TRUE(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page).ok());
  ASSERT_TRUE(context_->files.KeyFile(0).Read(page.data(), kIoAlignment, 0).ok());
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(page.data());
  EXPECT_NE(entries[6].check, 0u);
  EXPECT_EQ(entries[7].check, 0u) << "what lies behind the end is unreadable";
}

TEST_F(PowerRecoveryTest, DoneAgainItGivesTheSame) {
  MakeStore(263);
  Open();
  const std::vector<BucketState> before = states_;
  ASSERT_TRUE(Run().ok());
  const std::vector<BucketState> after = states_;
  // As a recovery that was killed before the counts were written leaves it.
  states_ = before;
  ASSERT_TRUE(Run().ok());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(states_[i].record_count, after[i].record_count);
    EXPECT_EQ(states_[i].synced_watermark, after[i].synced_watermark);
    EXPECT_EQ(states_[i].logged_key_watermark, after[i].logged_key_watermark);
  }
}

TEST_F(PowerRecoveryTest, AStoreThatCannotBeWrittenToIsReadableWhenAllIsInPlace) {
  MakeStore(263);
  Open();
  FailingCalls failing(CallKind::kPwrite, "/key_00", EIO);
  const ScopedHook hook(&failing);
  EXPECT_EQ(Run().code(), Code::kIOError);
  EXPECT_TRUE(readable_);
  EXPECT_EQ(states_[0].synced_watermark, 0u) << "nothing is promised";
  // Record 261 is staged alone.
  const std::string zeros(kValueBytes, '\0');
  const uint32_t place = PlaceInWord(states_[0].value_places, 261 / 4);
  Overwrite(dir_.Join(format::kStagingValuesName), zeros.data(), zeros.size(),
            context_->geometry().ValuePlaceOffset(0, place) + 261 % 4 * kValueBytes);
  EXPECT_EQ(Run().code(), Code::kIOError);
  EXPECT_FALSE(readable_);
}

TEST_F(PowerRecoveryTest, OnAFullDiskTheUserComesFirst) {
  MakeStore(263);
  Open();
  FailingCalls failing(CallKind::kPwrite, "/key_00", ENOSPC);
  const ScopedHook hook(&failing);
  EXPECT_EQ(Run().code(), Code::kFull);
  EXPECT_FALSE(readable_);
}

}  // namespace
}  // namespace engine_race::test

// Rows that the tail fills again in parts: the records of every run, and those that stayed, are
// there for readers and after a kill.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test/eventually.h"
#include "test/faults/call_watch.h"
#include "test/log/batch_test_util.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/log/row_test_util.h"
#include "test/watched_thread.h"

namespace engine_race::test {
namespace {

struct GroupBytes {
  uint64_t keys = 0;
  uint64_t values = 0;
};

// Bucket 0 has three full rows, of which a test gives up slots of the first one: `early_` and
// `late_`, each an odd number of single slots with others between them. And `few_` of the second.
class RefilledRowsTest : public ::testing::TestWithParam<GroupBytes> {
 protected:
  RefilledRowsTest() {
    options_ = TinyLogOptions();
    options_.key_group_bytes = GetParam().keys;
    options_.value_group_bytes = GetParam().values;
    // A log that is closed leaves what a kill would.
    options_.sync_on_close = false;
    log_ = OpenLog(options_, dir_.path());
    row_ = log_->geometry().row_records();
    for (uint32_t slot = 3; slot + 1 < row_; slot += 3) {
      early_.Add(slot);
      late_.Add(slot + 1);
    }
    if (early_.count() % 2 == 0) {
      early_ = early_.FirstOf(early_.count() - 1);
      late_ = late_.FirstOf(early_.count());
    }
    few_ = SlotBits::First(static_cast<uint32_t>(row_ / 8));
    PutNew(3 * row_);
    // The records that are given up are durable, and in no run that is looked for by its numbers.
    EXPECT_TRUE(log_->Sync().ok());
  }

  // New keys.
  void PutNew(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key = next_key_++;
      const Status put = log_->Append(key, ValueOf(key, 1).data());
      ASSERT_TRUE(put.ok()) << put.ToString();
      held_[key] = 1;
    }
  }
  void GiveUp(const SlotBits& slots, uint32_t row = 0) {
    ASSERT_NO_FATAL_FAILURE(GiveUpSlots(log_.get(), /*bucket=*/0, row, slots));
    for (uint32_t slot = 0; slot < row_; ++slot) {
      if (slots.Has(slot)) held_.erase(row * row_ + slot);
    }
  }
  // The early slots may be filled again, and then fewer ones of the second row. A cut holds the
  // late ones.
  void GiveUpBoth(BucketCut* cut) {
    ASSERT_NO_FATAL_FAILURE(GiveUp(early_));
    ASSERT_NO_FATAL_FAILURE(GiveUp(few_, /*row=*/1));
    ASSERT_TRUE(log_->reader().LookAtBucket(0, /*first_sequence=*/0, cut).ok());
    ASSERT_NO_FATAL_FAILURE(GiveUp(late_));
    ASSERT_EQ(log_->mover().GapCount(0), early_.count() + few_.count());
  }
  void Release(BucketCut* cut) {
    *cut = BucketCut();
    log_->mover().Release();
    ASSERT_FALSE(log_->mover().HasWaiting(0));
  }
  // The slots of the last `count` records that were appended.
  std::set<uint64_t> LastSlots(uint64_t count) {
    std::set<uint64_t> slots;
    for (const KeyRecord& record : RecordsOf(log_.get(), 0)) {
      if (record.key + count >= next_key_) slots.insert(record.slot);
    }
    return slots;
  }
  static std::set<uint64_t> SlotsOf(const SlotBits& bits) {
    std::set<uint64_t> slots;
    for (uint32_t n = 0; n < bits.count(); ++n) slots.insert(bits.Nth(n));
    return slots;
  }
  void ExpectHeld() { EXPECT_EQ(ContentOf(log_.get()), held_); }
  void ExpectHeldAfterAKill() {
    log_.reset();
    log_ = OpenLog(options_, dir_.path());
    ASSERT_NE(log_, nullptr);
    ASSERT_FALSE(log_->BucketDamaged(0));
    ExpectHeld();
  }
  // Fills the early slots, and syncs. Then fills the late ones, and more, to the end of a group of
  // keys: that in which the run through the early slots ends. Calls `check` after each `step`
  // appends.
  template <typename Fn>
  void FillBoth(uint64_t step, const Fn& check) {
    BucketCut cut;
    ASSERT_NO_FATAL_FAILURE(GiveUpBoth(&cut));
    ASSERT_NO_FATAL_FAILURE(PutNew(early_.count()));
    ASSERT_EQ(LastSlots(early_.count()), SlotsOf(early_));
    ASSERT_NO_FATAL_FAILURE(PutNew(1));
    ASSERT_TRUE(log_->Sync().ok());
    ASSERT_NO_FATAL_FAILURE(Release(&cut));
    ASSERT_EQ(log_->mover().GapCount(0), late_.count());
    ASSERT_NO_FATAL_FAILURE(check());
    const uint64_t key_count = log_->geometry().keys_per_group();
    const uint64_t group_end = (next_key_ / key_count + 1) * key_count;
    ASSERT_GT(group_end, next_key_ + late_.count());
    while (next_key_ < group_end + 1) {
      ASSERT_NO_FATAL_FAILURE(PutNew(std::min(step, group_end + 1 - next_key_)));
      ASSERT_NO_FATAL_FAILURE(check());
    }
  }

  const TempDir dir_{FastParent()};
  const TempDir journaled_dir_{FastParent()};
  Options options_;
  std::unique_ptr<BucketLog> log_;
  uint64_t row_ = 0;
  SlotBits early_;
  SlotBits late_;
  SlotBits few_;
  uint64_t next_key_ = 0;
  Content held_;
};

INSTANTIATE_TEST_SUITE_P(Groups, RefilledRowsTest,
                         testing::Values(GroupBytes{4096, 16384}, GroupBytes{8192, 8192},
                                         GroupBytes{8192, 16384}, GroupBytes{8192, 131072}),
                         [](const auto& info) {
                           return "KeysOf" + std::to_string(info.param.keys) + "ValuesOf" +
                                  std::to_string(info.param.values);
                         });

// A run that ends in the middle of a group is forgotten once it is synced, and another one takes
// its row. The group is written without the records of the first one.
TEST_P(RefilledRowsTest, AGroupIsWrittenWithoutAForgottenRun) {
  ASSERT_NO_FATAL_FAILURE(FillBoth(/*step=*/row_, [&] { ExpectHeld(); }));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterAKill());
}

TEST_P(RefilledRowsTest, AGroupWithAForgottenRunOutlivesKills) {
  ASSERT_NO_FATAL_FAILURE(FillBoth(/*step=*/9, [&] { ExpectHeldAfterAKill(); }));
}

TEST_P(RefilledRowsTest, AGroupWithAForgottenRunIsSyncedAnew) {
  ASSERT_NO_FATAL_FAILURE(FillBoth(/*step=*/9, [&] {
    ASSERT_TRUE(log_->Sync().ok());
    ExpectHeld();
  }));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterAKill());
}

TEST_P(RefilledRowsTest, SlotsThatACutHoldsAreNotFilled) {
  BucketCut cut;
  ASSERT_NO_FATAL_FAILURE(GiveUpBoth(&cut));
  ASSERT_NO_FATAL_FAILURE(PutNew(early_.count() + 2 * row_));
  for (const uint64_t slot : SlotsOf(late_)) {
    ASSERT_EQ(ReadSlot(*log_, 0, slot), ValueOf(slot, 1)) << slot;
  }
  ASSERT_NO_FATAL_FAILURE(Release(&cut));
  EXPECT_EQ(log_->mover().GapCount(0), 0U) << "the last run is not synced";
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_EQ(log_->mover().GapCount(0), late_.count());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterAKill());
}

// Staging and the logs tell the places of records that are not synced by their numbers.
TEST_P(RefilledRowsTest, ARowIsNotFilledAgainBeforeItsRunIsSynced) {
  BucketCut cut;
  ASSERT_NO_FATAL_FAILURE(GiveUpBoth(&cut));
  ASSERT_NO_FATAL_FAILURE(PutNew(early_.count()));
  ASSERT_NO_FATAL_FAILURE(Release(&cut));
  EXPECT_EQ(log_->mover().GapCount(0), few_.count());
  ASSERT_NO_FATAL_FAILURE(PutNew(1));
  EXPECT_GE(*LastSlots(1).begin(), row_);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterAKill());
  EXPECT_EQ(log_->mover().GapCount(0), 0U) << "a kill syncs nothing";
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_EQ(log_->mover().GapCount(0), late_.count());
}

// The run of the last synced record tells how many records a bucket has after a power loss.
TEST_P(RefilledRowsTest, TheRunOfTheLastSyncedRecordIsNotForgotten) {
  BucketCut cut;
  ASSERT_NO_FATAL_FAILURE(GiveUpBoth(&cut));
  ASSERT_NO_FATAL_FAILURE(PutNew(early_.count()));
  ASSERT_TRUE(log_->Sync().ok());
  ASSERT_NO_FATAL_FAILURE(Release(&cut));
  ASSERT_NO_FATAL_FAILURE(PutNew(3));
  const uint64_t store_id = log_->store_id();
  log_.reset();
  LosePower(dir_.path(), store_id);
  for (int i = 0; i < 3; ++i) held_.erase(--next_key_);
  for (int opening = 0; opening < 2; ++opening) {
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterAKill());
  }
}

// The journal has all records, and the rows none of their runs.
TEST_P(RefilledRowsTest, RunsThatLostTheirRowsGetTheirGaps) {
  log_.reset();
  options_.sync_mode = SyncMode::kGroup;
  options_.journal_bytes = uint64_t{128} << 20;
  options_.bucket_capacity_records = 8 * row_;
  log_ = OpenLog(options_, journaled_dir_.path());
  held_.clear();
  next_key_ = 0;
  ASSERT_NO_FATAL_FAILURE(PutNew(7 * row_));
  ASSERT_TRUE(log_->Sync().ok());
  const SlotBits given_up = early_ | late_;
  for (uint32_t row = 0; row < 6; ++row) ASSERT_NO_FATAL_FAILURE(GiveUp(given_up, row));
  const std::string rows = journaled_dir_.Join(format::kRowsName);
  const std::string kept = dir_.Join("rows");
  std::filesystem::copy_file(rows, kept);
  ASSERT_NO_FATAL_FAILURE(PutNew(6 * given_up.count()));
  ASSERT_LT(*LastSlots(6 * given_up.count()).rbegin(), 6 * row_);
  const uint64_t store_id = log_->store_id();
  log_.reset();
  std::filesystem::copy_file(kept, rows, std::filesystem::copy_options::overwrite_existing);
  LosePower(journaled_dir_.path(), store_id);
  log_ = OpenLog(options_, journaled_dir_.path());
  ASSERT_NE(log_, nullptr);
  ExpectHeld();
}

// A cleaner looks up records by number if they were appended since its claim.
TEST_P(RefilledRowsTest, ARowIsNotFilledAgainWhileACleanerMayLookForItsRun) {
  BucketCut cut;
  ASSERT_NO_FATAL_FAILURE(GiveUpBoth(&cut));
  ASSERT_TRUE(log_->mover().Claim(0));
  ASSERT_NO_FATAL_FAILURE(PutNew(early_.count() + 1));
  ASSERT_TRUE(log_->Sync().ok());
  ASSERT_NO_FATAL_FAILURE(Release(&cut));
  EXPECT_EQ(log_->mover().GapCount(0), 0U);
  log_->mover().Unclaim(0);
  EXPECT_EQ(log_->mover().GapCount(0), late_.count());
  ASSERT_NO_FATAL_FAILURE(PutNew(few_.count() - 1 + late_.count()));
  EXPECT_EQ(LastSlots(late_.count()), SlotsOf(late_));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterAKill());
}

class LateGroupTest : public RefilledRowsTest {};

INSTANTIATE_TEST_SUITE_P(Groups, LateGroupTest,
                         testing::Values(GroupBytes{4096, 16384}, GroupBytes{8192, 131072}),
                         [](const auto& info) {
                           return "ValuesOf" + std::to_string(info.param.values);
                         });

// A Sync brings a part of a group into the logs, and flushes them. Meanwhile another thread fills
// the group and begins to write all of it. That write ends after the slots of the first part could
// have been given to others.
TEST_P(LateGroupTest, ASyncAwaitsAWriteOfWhatItHasSynced) {
  const uint64_t group = log_->geometry().values_per_group();
  const auto half = static_cast<uint32_t>(group / 2);
  ASSERT_NO_FATAL_FAILURE(GiveUp(SlotBits::First(half), /*row=*/0));
  ASSERT_NO_FATAL_FAILURE(GiveUp(SlotBits::First(half), /*row=*/1));
  ASSERT_TRUE(log_->mover().LetFill(0, 1)) << "a run through few slots";
  const uint64_t first_key = next_key_;
  ASSERT_EQ(first_key % group, 0U);
  ASSERT_NO_FATAL_FAILURE(PutNew(group - 1));
  ASSERT_EQ(*LastSlots(group - 1).begin(), 0U);
  const uint64_t synced_before = log_->SyncedWatermark(0);
  const auto first_offset = static_cast<off_t>(log_->slots().LocateValues(0, 0).offset);
  std::optional<WatchedThread> late;
  std::atomic<bool> has_begun{false};
  std::atomic<bool> is_late_write{false};
  std::atomic<bool> may_go_on{false};
  std::atomic<bool> counts_are_flushed{false};
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kFdatasync && !has_begun.exchange(true)) {
      const uint64_t key = next_key_++;
      held_[key] = 1;
      late.emplace([&, key] { EXPECT_TRUE(log_->Append(key, ValueOf(key, 1).data()).ok()); });
      EXPECT_TRUE(Eventually([&] { return is_late_write.load(); }));
    } else if (call->kind == CallKind::kPwrite && has_begun && call->offset == first_offset &&
               PathOf(*call).ends_with("/value_00") && !is_late_write.exchange(true)) {
      EXPECT_TRUE(Eventually([&] { return may_go_on.load(); }));
    }
    const long result = call->Proceed();
    if (call->kind == CallKind::kFdatasync && PathOf(*call).ends_with(format::kStagingCountsName)) {
      counts_are_flushed = true;
    }
    return result;
  });
  {
    const ScopedHook hook(&watch);
    WatchedThread syncer([&] {
      ASSERT_TRUE(log_->Sync().ok());
      ASSERT_NO_FATAL_FAILURE(
          GiveUpSlots(log_.get(), /*bucket=*/0, /*row=*/0, SlotBits::First(half)));
      for (uint64_t i = 0; i < half; ++i) held_.erase(first_key + i);
      ASSERT_NO_FATAL_FAILURE(PutNew(group));
    });
    EXPECT_TRUE(Eventually([&] { return counts_are_flushed.load(); }));
    EXPECT_TRUE(syncer.AwaitSleep());
    EXPECT_EQ(log_->SyncedWatermark(0), synced_before);
    may_go_on = true;
    syncer.Join();
    late->Join();
  }
  EXPECT_EQ(log_->SyncedWatermark(0), synced_before + group - 1);
  EXPECT_EQ(*LastSlots(group).begin(), 0U) << "given to others";
  ExpectHeld();
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterAKill());
}

}  // namespace
}  // namespace engine_race::test

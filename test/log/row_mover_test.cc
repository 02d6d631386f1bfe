// RowMover: the order in which changes become durable when slots are given up.
#include "engine_race/log/row_mover.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/guarded.h"
#include "test/index/refused_memory.h"
#include "test/log/batch_test_util.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/row_mover_fixture.h"

namespace engine_race::test {
namespace {

// The calls on the logs and on the file of rows, in order. Neighbours of one kind are one.
class CallOrder : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const std::string path = PathOf(*call);
    const std::string name = path.substr(path.rfind('/') + 1);
    const bool is_rows = name == format::kRowsName;
    const bool is_log = !is_rows && (name.rfind("key_0", 0) == 0 || name.rfind("value_0", 0) == 0);
    if (call->kind == CallKind::kFdatasync || call->kind == CallKind::kFsync) {
      if (is_rows) Add("flush rows");
      if (is_log) Add("flush logs");
    } else if (call->kind == CallKind::kPwrite) {
      if (is_rows) Add("write rows");
    } else if (call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0) {
      if (is_log) Add("punch");
    }
    return call->Proceed();
  }

  std::vector<std::string> calls;

 private:
  void Add(const std::string& what) {
    if (calls.empty() || calls.back() != what) calls.push_back(what);
  }
};

// Nothing is appended meanwhile: the horizon stays where it is. They keep their numbers.
TEST_F(RowMoverTest, RecordsAreMovedAgainAndAgain) {
  uint32_t row = 0;
  std::set<uint64_t> seals = {0};
  for (uint64_t birth = 1; birth <= 5; ++birth) {
    SCOPED_TRACE(birth);
    ASSERT_NO_FATAL_FAILURE(Move(row));
    ASSERT_TRUE(log_->mover().Settle().ok());
    log_->mover().Release();
    const uint64_t seal = RowOnDisk(moved_row_).seal;
    EXPECT_TRUE(seals.insert(seal).second);
    const Row wanted = {.kind = format::RowKind::kUsed,
                        .held = SlotBits::First(kRow),
                        .birth = birth,
                        .horizon = 3 * kRow,
                        .seal = seal,
                        .moved_at = birth};
    EXPECT_EQ(RowOnDisk(moved_row_), wanted);
    EXPECT_TRUE(RowOnDisk(row).free());
    EXPECT_EQ(RowOnDisk(row).birth, birth - 1) << "other rows get other births";
    row = moved_row_;
    for (const KeyRecord& record : RecordsOf(log_.get(), 0)) {
      EXPECT_EQ(record.sequence, record.key) << record.slot;
    }
  }
}

// The records that were moved, and those that supersede others of the slots, must be there after a
// power loss when the slots are not.
TEST_F(RowMoverTest, TheLogsAreDurableBeforeSlotsAreFreedAndThatBeforeTheyAreUsedAgain) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  CallOrder order;
  const ScopedHook hook(&order);
  ASSERT_TRUE(log_->mover().Settle().ok());
  log_->mover().Release();
  const auto write = std::find(order.calls.begin(), order.calls.end(), "write rows");
  EXPECT_NE(std::find(order.calls.begin(), write, "flush logs"), write);
  EXPECT_EQ(std::vector<std::string>(write, order.calls.end()),
            (std::vector<std::string>{"write rows", "flush rows", "punch"}));
}

TEST_F(RowMoverTest, NothingIsReleasedBeforeItIsSettled) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kMoving);
  EXPECT_TRUE(RowOnDisk(0).has_run());
  const uint64_t free_count = log_->mover().FreeRowCount(0);
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), 0u);
  EXPECT_EQ(ReadSlot(*log_, 0, 5), ValueOf(5, 1));
  ASSERT_TRUE(log_->mover().Settle().ok());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kUsed);
  EXPECT_TRUE(RowOnDisk(0).free());
  EXPECT_EQ(log_->mover().FreeRowCount(0), free_count) << "somebody may come to it";
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), kRow * kValueBytes);
  EXPECT_EQ(log_->mover().FreeRowCount(0), free_count + 1);
}

TEST_F(RowMoverTest, WhatCouldNotBeFlushedFreesNothing) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  FailingCalls failing(CallKind::kFdatasync, "value_00", EIO);
  const ScopedHook hook(&failing);
  EXPECT_FALSE(log_->mover().Settle().ok());
  EXPECT_GT(failing.count, 0);
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), 0u);
  EXPECT_TRUE(RowOnDisk(0).has_run());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kMoving);
  EXPECT_EQ(ReadSlot(*log_, 0, 5), ValueOf(5, 1));
}

// The slots that were given up are forgotten: a later cleaning finds them again.
TEST_F(RowMoverTest, AnOpeningSettlesTheMovesOfAnEarlierOne) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  log_.reset();
  log_ = OpenLog(TinyLogOptions(), dir_.path());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kMoving);
  ASSERT_TRUE(log_->mover().Settle().ok());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kUsed);
  EXPECT_TRUE(RowOnDisk(0).has_run());
}

// The reader of a cut reads rows as they were.
TEST_F(RowMoverTest, ACutKeepsItsRows) {
  BucketCut cut;
  ASSERT_TRUE(log_->reader().LookAtBucket(0, /*first_sequence=*/0, &cut).ok());
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_TRUE(log_->mover().Settle().ok());
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), 0u);
  EXPECT_EQ(ReadSlot(*log_, 0, 5), ValueOf(5, 1));
  cut = BucketCut();
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), kRow * kValueBytes);
}

TEST_F(RowMoverTest, PinsKeepTheRowsOfAllBuckets) {
  std::vector<CutPin> pins = log_->PinRows();
  EXPECT_EQ(pins.size(), log_->geometry().bucket_count);
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_TRUE(log_->mover().Settle().ok());
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), 0u);
  pins.clear();
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), kRow * kValueBytes);
}

// Readers hold nothing: they compare this count.
TEST_F(RowMoverTest, TheCountOfReusesRisesBeforeSlotsMayBeUsedAgain) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  const uint64_t before = log_->ReuseCount(0);
  ASSERT_TRUE(log_->mover().Settle().ok());
  EXPECT_EQ(log_->ReuseCount(0), before);
  uint64_t at_punch = before;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kFallocate) at_punch = log_->ReuseCount(0);
    return call->Proceed();
  });
  const ScopedHook hook(&watch);
  log_->mover().Release();
  EXPECT_GT(at_punch, before);
}

class ViewListener final : public TellingListener {
 public:
  bool HasViewIn(uint64_t, uint64_t) const noexcept override { return has_view; }
  uint64_t CurrentVersion() const noexcept override { return 7; }
  bool has_view = true;
};

// Slots that a view holds are not released soon. Others of their bucket may be, and those of other
// buckets do not count.
TEST_F(RowMoverTest, OnlySlotsThatNoViewIsKnownToHoldAreReleasedSoon) {
  ViewListener listener;
  RowMover& mover = log_->mover();
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  // A move looks at the bucket with a listener of its own.
  Attach(log_.get(), &listener);
  EXPECT_FALSE(mover.IsReleasing(0)) << "not settled";
  ASSERT_TRUE(mover.Settle().ok());
  EXPECT_TRUE(mover.IsReleasing(0));
  EXPECT_FALSE(mover.IsReleasing(1));
  mover.Release();
  EXPECT_FALSE(mover.IsReleasing(0));
  EXPECT_TRUE(mover.HasWaiting(0));
  EXPECT_EQ(mover.releasable_bytes(), 0u);
  ASSERT_NO_FATAL_FAILURE(Move(1));
  Attach(log_.get(), &listener);
  ASSERT_TRUE(mover.Settle().ok());
  EXPECT_TRUE(mover.IsReleasing(0));
  listener.has_view = false;
  mover.Release();
  EXPECT_FALSE(mover.IsReleasing(0));
  EXPECT_FALSE(mover.HasWaiting(0));
  EXPECT_EQ(mover.releasable_bytes(), 0u);
  Detach(log_.get());
}

// The index may lose its part of a bucket while views read records that it has found before.
TEST_F(RowMoverTest, SlotsThatAViewHoldsStayWhileTheListenerIsSuspended) {
  ViewListener listener;
  RowMover& mover = log_->mover();
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  Attach(log_.get(), &listener);
  ASSERT_TRUE(mover.Settle().ok());
  log_->reader().SuspendListener(0);
  mover.Release();
  EXPECT_EQ(mover.released_bytes(), 0u);
  EXPECT_EQ(ReadSlot(*log_, 0, 5), ValueOf(5, 1));
  FreedSlots freed;
  mover.Describe(0, 1, &freed);
  EXPECT_EQ(freed.version, listener.CurrentVersion()) << "given up meanwhile";
  listener.has_view = false;
  mover.Release();
  EXPECT_EQ(mover.released_bytes(), kRow * kValueBytes);
  Detach(log_.get());
}

// An opening ends before it releases rows 0 and 1. The next one uses row 0 again, and a view holds
// what it moves from row 2.
TEST_F(RowMoverTest, LeftoversAreThoseOfEarlierOpenings) {
  for (const uint32_t row : {0, 1}) ASSERT_NO_FATAL_FAILURE(Move(row));
  ASSERT_TRUE(log_->mover().Settle().ok());
  log_.reset();
  log_ = OpenLog(TinyLogOptions(), dir_.path());
  ASSERT_EQ(ReadSlot(*log_, 0, kRow + 5), ValueOf(kRow + 5, 1));
  ASSERT_NO_FATAL_FAILURE(Move(2));
  ASSERT_EQ(moved_row_, 0u);
  ViewListener listener;
  Attach(log_.get(), &listener);
  ASSERT_TRUE(log_->mover().Settle().ok());
  log_->mover().Release();
  log_->mover().ReleaseLeftovers(0);
  EXPECT_EQ(ReadSlot(*log_, 0, kRow + 5), std::string(kValueBytes, '\0'));
  EXPECT_EQ(ReadSlot(*log_, 0, 2 * kRow + 5), ValueOf(2 * kRow + 5, 1)) << "the view's";
  EXPECT_EQ(ReadSlot(*log_, 0, 5), ValueOf(2 * kRow + 5, 1)) << "moved";
  Detach(log_.get());
}

// Release runs in threads that have no caller to tell.
TEST_F(RowMoverTest, ReleaseWithoutMemoryIsDoneLater) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  const uint64_t free_count = log_->mover().FreeRowCount(0);
  ASSERT_TRUE(log_->mover().Settle().ok());
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    const RefuseMemory refusal(passed);
    log_->mover().Release();
    refused = refusal.refused();
  }
  EXPECT_EQ(log_->mover().released_bytes(), kRow * kValueBytes);
  EXPECT_EQ(log_->mover().unreleased_bytes(), 0u);
  EXPECT_EQ(log_->mover().FreeRowCount(0), free_count + 1);
}

// Slots that are marked as given up wait until they are released: those that are not listed, for
// ever.
TEST_F(RowMoverTest, FreeingWithoutMemoryIsDoneAgain) {
  RowMover& mover = log_->mover();
  ASSERT_TRUE(mover.Claim(0));
  ASSERT_TRUE(mover.Begin(0).ok());
  const uint64_t free_count = mover.FreeRowCount(0);
  FreedSlots freed;
  mover.Describe(0, 0, &freed);
  freed.slots = SlotBits::First(kRow);
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    const RefuseMemory refusal(passed);
    const Status given_up = Guarded([&] { return mover.Free({&freed, 1}); });
    refused = refusal.refused();
    EXPECT_EQ(given_up.ok(), !refused);
    if (!refused) break;
    EXPECT_FALSE(mover.HasWaiting(0));
    EXPECT_TRUE(mover.UnsettledSlots(0).empty()) << passed;
    EXPECT_EQ(mover.unsettled_bytes(), 0u);
  }
  ASSERT_TRUE(mover.Settle().ok());
  mover.Release();
  EXPECT_EQ(mover.released_bytes(), kRow * kValueBytes);
  EXPECT_FALSE(mover.HasWaiting(0));
  EXPECT_EQ(mover.FreeRowCount(0), free_count + 1);
}

// A writer that finds neither free rows nor any that wait says that the bucket is full. A run
// through few gaps is short. The tail begins one only in a bucket that has nothing else.
TEST_F(RowMoverTest, FewGapsOfARowAreFilledInAFullRegionAlone) {
  constexpr uint64_t kNoLimit = ~uint64_t{0};
  RowMover& mover = log_->mover();
  ASSERT_TRUE(log_->Sync().ok());
  ASSERT_NO_FATAL_FAILURE(GiveUpSlots(log_.get(), /*bucket=*/0, /*row=*/0, SlotBits::First(4)));
  EXPECT_EQ(mover.GapCount(0), 0U);
  EXPECT_FALSE(mover.LetFill(0, log_->geometry().bucket_capacity_records));
  EXPECT_EQ(mover.GapCount(0), 0U);
  EXPECT_TRUE(mover.LetFill(0, 1));
  EXPECT_EQ(mover.GapCount(0), 4U);
  mover.LimitRows(0, kNoLimit);
  EXPECT_EQ(mover.GapCount(0), 0U) << "other rows are free";
}

TEST_F(RowMoverTest, ARowWaitsUntilItCanBeTaken) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  const uint64_t free_count = log_->mover().FreeRowCount(0);
  ASSERT_TRUE(log_->mover().Settle().ok());
  int punch_count = 0;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kFallocate) {
      ++punch_count;
      EXPECT_TRUE(log_->mover().HasWaiting(0) || log_->mover().FreeRowCount(0) > free_count);
    }
    return call->Proceed();
  });
  const ScopedHook hook(&watch);
  log_->mover().Release();
  EXPECT_GT(punch_count, 1) << "values and keys";
  EXPECT_FALSE(log_->mover().HasWaiting(0));
}

}  // namespace
}  // namespace engine_race::test

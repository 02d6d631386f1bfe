// RowMover: the order in which changes become durable when cells are given up.
#include "engine_race/log/row_mover.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
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

// Nothing is appended meanwhile: the horizon stays where it is.
TEST_F(RowMoverTest, RecordsAreMovedAgainAndAgain) {
  uint32_t row = 0;
  for (uint64_t number = kRow; number < kRow + 5; ++number) {
    SCOPED_TRACE(number);
    ASSERT_NO_FATAL_FAILURE(Move(row));
    ASSERT_TRUE(log_->mover().Settle().ok());
    log_->mover().Release();
    EXPECT_EQ(RowOnDisk(moved_row_),
              (Row{.kind = format::RowKind::kMoved, .number = number, .record_count = kRow}));
    EXPECT_TRUE(RowOnDisk(row).free());
    row = moved_row_;
    for (const KeyRecord& record : RecordsOf(log_.get(), 0)) {
      const bool was_moved = record.slot / kRow == row;
      EXPECT_TRUE(!was_moved || record.sequence == 2 * number) << record.slot;
    }
  }
}

// A row that an earlier opening freed may have held entries with any number up to the horizon.
TEST_F(RowMoverTest, ARowOfAnEarlierOpeningGetsNoLowNumber) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_TRUE(log_->mover().Settle().ok());
  log_->mover().Release();
  log_.reset();
  log_ = OpenLog(TinyLogOptions(), dir_.path());
  ASSERT_NO_FATAL_FAILURE(Move(moved_row_));
  EXPECT_EQ(moved_row_, 0u);
  EXPECT_EQ(RowOnDisk(0).number, log_->RecordCount(0));
}

// The records that were moved, and those that supersede others of the cells, must be there after a
// power loss when the cells are not.
TEST_F(RowMoverTest, TheLogsAreDurableBeforeCellsAreFreedAndThatBeforeTheyAreUsedAgain) {
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
  EXPECT_TRUE(RowOnDisk(0).is_run());
  const uint64_t free_count = log_->mover().FreeRowCount(0);
  log_->mover().Release();
  EXPECT_EQ(log_->mover().released_bytes(), 0u);
  EXPECT_EQ(ReadSlot(*log_, 0, 5), ValueOf(5, 1));
  ASSERT_TRUE(log_->mover().Settle().ok());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kMoved);
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
  EXPECT_TRUE(RowOnDisk(0).is_run());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kMoving);
  EXPECT_EQ(ReadSlot(*log_, 0, 5), ValueOf(5, 1));
}

// The cells that were given up are forgotten: a later cleaning finds them again.
TEST_F(RowMoverTest, AnOpeningSettlesTheMovesOfAnEarlierOne) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  log_.reset();
  log_ = OpenLog(TinyLogOptions(), dir_.path());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kMoving);
  ASSERT_TRUE(log_->mover().Settle().ok());
  EXPECT_EQ(RowOnDisk(moved_row_).kind, format::RowKind::kMoved);
  EXPECT_TRUE(RowOnDisk(0).is_run());
}

// The reader of a cut reads rows as they were.
TEST_F(RowMoverTest, ACutKeepsItsRows) {
  BucketCut cut;
  ASSERT_TRUE(log_->LookAtBucket(0, /*first_sequence=*/0, &cut).ok());
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

// A backup asks whether a record was appended since its parent.
TEST_F(RowMoverTest, MovedRecordsKeepABoundOfTheirNumbers) {
  const std::vector<CutPin> pins = log_->PinRows();
  EXPECT_EQ(log_->SequenceEnd(0, 5), 6u);
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  EXPECT_EQ(log_->SequenceEnd(0, 5), 6u);
  EXPECT_EQ(log_->SequenceEnd(0, moved_row_ * kRow + 5), kRow);
  ASSERT_TRUE(log_->mover().Settle().ok());
  EXPECT_TRUE(RowOnDisk(0).free());
  EXPECT_EQ(log_->SequenceEnd(0, 5), kRow) << "a view may show the record there";
  EXPECT_EQ(log_->SequenceEnd(0, kRow + 5), kRow + 6);
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
  bool has_view = true;
};

// Cells that a view holds are not released soon. Others of their bucket may be, and those of other
// buckets do not count.
TEST_F(RowMoverTest, OnlyCellsThatNoViewIsKnownToHoldAreReleasedSoon) {
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

// Cells that are marked as given up wait until they are released: those that are not listed, for
// ever.
TEST_F(RowMoverTest, FreeingWithoutMemoryIsDoneAgain) {
  RowMover& mover = log_->mover();
  ASSERT_TRUE(mover.Claim(0));
  ASSERT_TRUE(mover.Begin(0).ok());
  const uint64_t free_count = mover.FreeRowCount(0);
  FreedCells freed;
  mover.Describe(0, 0, &freed);
  freed.cells = (uint32_t{1} << log_->geometry().cells_per_row()) - 1;
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    const RefuseMemory refusal(passed);
    const Status given_up = Guarded([&] { return mover.Free({&freed, 1}); });
    refused = refusal.refused();
    EXPECT_EQ(given_up.ok(), !refused);
    if (!refused) break;
    EXPECT_FALSE(mover.HasWaiting(0));
    for (const auto& [row, cells] : mover.UnsettledCells(0)) EXPECT_EQ(cells, 0u) << row;
    EXPECT_EQ(mover.unsettled_bytes(), 0u);
  }
  ASSERT_TRUE(mover.Settle().ok());
  mover.Release();
  EXPECT_EQ(mover.released_bytes(), kRow * kValueBytes);
  EXPECT_FALSE(mover.HasWaiting(0));
  EXPECT_EQ(mover.FreeRowCount(0), free_count + 1);
}

// A writer that finds neither free rows nor any that wait says that the region is full.
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

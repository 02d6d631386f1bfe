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
#include "engine_race/log/row_file.h"
#include "test/index/refused_memory.h"
#include "test/log/batch_test_util.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kRow = 256;

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

class RowMoverTest : public ::testing::Test {
 protected:
  RowMoverTest() : log_(OpenLog(TinyOptions(), dir_.path())) {
    for (uint64_t key = 0; key < 3 * kRow; ++key) {
      EXPECT_TRUE(log_->Append(key, ValueOf(key, 1).data()).ok());
    }
  }

  void MoveFirstRow() { ASSERT_NO_FATAL_FAILURE(Move(0)); }
  void Move(uint32_t from_row) {
    ASSERT_NO_FATAL_FAILURE(MoveRow(log_.get(), /*bucket=*/0, from_row, &moved_row_));
  }
  // As the file has it.
  Row RowOnDisk(uint32_t row) {
    SlotTable table;
    bool damaged = true;
    EXPECT_TRUE(ReadRows(log_->files(), 0, &table, &damaged).ok());
    EXPECT_FALSE(damaged);
    return row < table.rows().size() ? table.rows()[row] : Row();
  }

  const TempDir dir_;
  std::unique_ptr<BucketLog> log_;
  uint32_t moved_row_ = 0;
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
  log_ = OpenLog(TinyOptions(), dir_.path());
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
  log_ = OpenLog(TinyOptions(), dir_.path());
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

// An index that has no memory after so many records.
class ShortOfMemory : public AppendListener {
 public:
  explicit ShortOfMemory(int room_count) : room_count_(room_count) {}
  Status Prepare(uint32_t /*bucket*/) override {
    return room_count_ > 0 ? Status::Ok() : Status::OutOfMemory("no room");
  }
  void OnAppend(uint32_t /*bucket*/, const KeyRecord& record) noexcept override {
    --room_count_;
    told.push_back(record.slot);
  }

  std::vector<uint32_t> told;

 private:
  int room_count_;
};

class RefusedPublishTest : public RowMoverTest {
 protected:
  std::vector<KeyRecord> FirstRow() {
    std::vector<KeyRecord> records = RecordsOf(log_.get(), 0);
    records.resize(kRow);
    return records;
  }
  // Publishes the first row's records in another row, which the index refuses.
  void PublishFirstRow(AppendListener* listener) {
    ASSERT_NO_FATAL_FAILURE(PublishTo(listener, FirstRow(), log_->RecordCount(0)));
  }
  void PublishTo(AppendListener* listener, std::vector<KeyRecord> moved, uint64_t horizon) {
    RowMover& mover = log_->mover();
    BucketCut cut;
    ASSERT_TRUE(log_->CutBucket(0, /*first_sequence=*/0, listener, &cut).ok());
    ASSERT_TRUE(mover.Claim(0));
    ASSERT_TRUE(mover.Begin(0).ok());
    free_count_ = mover.FreeRowCount(0);
    ASSERT_TRUE(mover.TakeRow(0, /*kept_count=*/0, &moved_row_).ok());
    published_ = mover.Publish(0, moved_row_, horizon, moved);
    mover.Unclaim(0);
    log_->DetachListener(0);
  }
  // Publishes the first row after `newer_count` records, of which the first one's entry is damaged.
  void PublishBesideDamage(uint64_t newer_count, const std::string& file, uint64_t offset) {
    const std::vector<KeyRecord> moved = FirstRow();
    const uint64_t horizon = log_->RecordCount(0);
    for (uint64_t key = 0; key < newer_count; ++key) {
      ASSERT_TRUE(log_->Append(key, ValueOf(key, 2).data()).ok());
    }
    const uint64_t another_key = 12345;
    Overwrite(dir_.Join(file), &another_key, sizeof(another_key), offset);
    ShortOfMemory listener(1000);
    ASSERT_NO_FATAL_FAILURE(PublishTo(&listener, moved, horizon));
    EXPECT_EQ(published_.code(), Code::kCorruption) << published_.ToString();
    EXPECT_TRUE(listener.told.empty()) << "the index would lose the newest record of key 0";
    EXPECT_TRUE(RowOnDisk(moved_row_).free());
    EXPECT_EQ(log_->mover().FreeRowCount(0), free_count_);
  }

  uint64_t free_count_ = 0;
  Status published_;
};

// A cleaner would free the old slots of the others, to which the index still leads readers.
TEST_F(RefusedPublishTest, TheRowHoldsOnlyWhatTheIndexWasToldOf) {
  ShortOfMemory listener(3);
  ASSERT_NO_FATAL_FAILURE(PublishFirstRow(&listener));
  EXPECT_EQ(published_.code(), Code::kOutOfMemory);
  EXPECT_EQ(listener.told.size(), 3u);
  EXPECT_EQ(RowOnDisk(moved_row_).record_count, 3u);
  BucketCut cut;
  ASSERT_TRUE(log_->LookAtBucket(0, /*first_sequence=*/0, &cut).ok());
  EXPECT_TRUE(cut.Holds(moved_row_ * kRow + 2));
  EXPECT_FALSE(cut.Holds(moved_row_ * kRow + 3));
}

TEST_F(RefusedPublishTest, ARowOfWhichTheIndexWasToldNothingIsFreeAgain) {
  ShortOfMemory listener(0);
  ASSERT_NO_FATAL_FAILURE(PublishFirstRow(&listener));
  EXPECT_EQ(published_.code(), Code::kOutOfMemory);
  EXPECT_TRUE(RowOnDisk(moved_row_).free());
  EXPECT_EQ(log_->mover().FreeRowCount(0), free_count_);
}

// The damaged entry may be of any key: no older record is known to be the newest of its key.
TEST_F(RefusedPublishTest, NothingIsPublishedBesideANewerDamagedEntryInTheLog) {
  PublishBesideDamage(kRow, "key_00", 3 * kRow * sizeof(format::KeyEntry));
}

TEST_F(RefusedPublishTest, NothingIsPublishedBesideANewerDamagedStagedEntry) {
  // The fourth group of keys takes the lowest free place.
  PublishBesideDamage(1, format::kStagingKeysName, 0);
}

TEST_F(RefusedPublishTest, ARowWhoseKeysFindTheDiskFullIsFreeAgain) {
  FailingCalls failing(CallKind::kPwrite, "/key_00", ENOSPC);
  const ScopedHook hook(&failing);
  ASSERT_NO_FATAL_FAILURE(PublishFirstRow(nullptr));
  EXPECT_EQ(published_.code(), Code::kFull);
  EXPECT_GT(failing.count, 0);
  EXPECT_EQ(log_->mover().FreeRowCount(0), free_count_);
}

}  // namespace
}  // namespace engine_race::test

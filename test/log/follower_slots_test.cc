// Slots and places that the writer uses again, as a reader of a follower finds them.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "test/log/follower_fixture.h"
#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

class FollowerSlotsTest : public FollowerTest {
 protected:
  // Three full rows, and a listener that has cut them.
  void FollowThreeRows() { ASSERT_NO_FATAL_FAILURE(FollowAndCut(3 * kRow)); }
  // The first row was moved before, so the bucket has rows.
  void FollowMovedRows() {
    ASSERT_NO_FATAL_FAILURE(OpenWriter());
    ASSERT_NO_FATAL_FAILURE(Append(3 * kRow));
    ASSERT_NO_FATAL_FAILURE(MoveRow(0));
    ASSERT_NO_FATAL_FAILURE(Release());
    ASSERT_NO_FATAL_FAILURE(Follow());
    listener_ = std::make_unique<DetachListener>(follower_.get());
    ASSERT_NO_FATAL_FAILURE(Cut());
  }
  // What was given up may be used again from here on.
  void Release() {
    ASSERT_TRUE(writer_->Sync().ok());
    ASSERT_TRUE(writer_->mover().Settle().ok());
    writer_->mover().Release();
  }
  uint64_t ReuseCount() const { return follower_->ReuseCount(0); }
  void TearDown() override {
    if (follower_ != nullptr) follower_->reader().DetachListener(0);
  }

  static constexpr uint64_t kRow = 256;
};

TEST_F(FollowerSlotsTest, SlotsThatHoldTheirRecordsAreNotReused) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  const uint64_t reuse_count = ReuseCount();
  ASSERT_NO_FATAL_FAILURE(Append(10));
  EXPECT_FALSE(IsReused(kRow, reuse_count));
  EXPECT_FALSE(IsReused(3 * kRow, reuse_count));
  EXPECT_TRUE(failure_.ok());
  EXPECT_EQ(follower_->RecordCount(0), 3 * kRow) << "nothing was brought up to date";
}

// The bucket had no rows when the slot was looked up, and the store no file of them.
TEST_F(FollowerSlotsTest, TheFirstRowsOfABucketAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(FollowThreeRows());
  const uint64_t reuse_count = ReuseCount();
  EXPECT_FALSE(IsReused(0, reuse_count));
  ASSERT_NO_FATAL_FAILURE(MoveRow(0));
  EXPECT_TRUE(IsReused(0, reuse_count));
  EXPECT_TRUE(failure_.ok()) << failure_.ToString();
  EXPECT_EQ(listener_->detach_count, 1u) << "its records were moved";
  EXPECT_NE(ReuseCount(), reuse_count);
  ASSERT_NO_FATAL_FAILURE(ExpectAll(3 * kRow));
}

// The bucket gets its rows because slots are given up, and no record is moved.
TEST_F(FollowerSlotsTest, SlotsThatTheFirstRowsGiveUpAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(FollowThreeRows());
  ASSERT_NO_FATAL_FAILURE(GiveUpRow(1));
  ASSERT_NO_FATAL_FAILURE(Append(2 * kRow));
  const uint64_t reuse_count = ReuseCount();
  ASSERT_TRUE(Refresh().ok());
  EXPECT_EQ(listener_->reuse_hint_count, 1u);
  EXPECT_EQ(listener_->append_count, 2 * kRow);
  EXPECT_NE(ReuseCount(), reuse_count);
}

// Another reader has brought the bucket up to date since the lookup: the rows say nothing about it.
TEST_F(FollowerSlotsTest, AnOldLookupIsReused) {
  ASSERT_NO_FATAL_FAILURE(FollowThreeRows());
  const uint64_t reuse_count = ReuseCount();
  ASSERT_NO_FATAL_FAILURE(MoveRow(0));
  ASSERT_NO_FATAL_FAILURE(Append(1));
  ASSERT_TRUE(Refresh().ok());
  ASSERT_NE(ReuseCount(), reuse_count);
  EXPECT_TRUE(IsReused(kRow, reuse_count));
  EXPECT_FALSE(IsReused(kRow, ReuseCount()));
}

// A row is given up as a whole, and holds other records then.
TEST_F(FollowerSlotsTest, ARowThatWasFilledAgainIsNoticed) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  ASSERT_NO_FATAL_FAILURE(GiveUpRow(1));
  ASSERT_NO_FATAL_FAILURE(Append(2 * kRow));
  const uint64_t reuse_count = ReuseCount();
  EXPECT_TRUE(IsReused(kRow, reuse_count));
  EXPECT_TRUE(failure_.ok()) << failure_.ToString();
  EXPECT_NE(ReuseCount(), reuse_count);
  EXPECT_EQ(listener_->reuse_hint_count, 1u) << "views may show what lay there";
  EXPECT_EQ(listener_->detach_count, 0u) << "no record was moved";
  EXPECT_EQ(listener_->append_count, 2 * kRow);
}

// Some slots of a row are given up. The others hold their records.
TEST_F(FollowerSlotsTest, SlotsThatWereGivenUpAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  ASSERT_NO_FATAL_FAILURE(
      GiveUpSlots(writer_.get(), /*bucket=*/0, /*row=*/1, SlotBits::First(kRow / 2)));
  const uint64_t reuse_count = ReuseCount();
  EXPECT_FALSE(IsReused(2 * kRow - 1, reuse_count));
  EXPECT_TRUE(IsReused(kRow, reuse_count));
  EXPECT_EQ(listener_->reuse_hint_count, 1u);
  EXPECT_NE(ReuseCount(), reuse_count);
}

// The listener leads to slots that held no record in the rows that the follower knows.
TEST_F(FollowerSlotsTest, SlotsThatHeldNothingResetTheBucket) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  for (const uint64_t slot : {uint64_t{0}, 8 * kRow}) {
    SCOPED_TRACE(slot);
    listener_->detach_count = 0;
    const uint64_t reuse_count = ReuseCount();
    EXPECT_TRUE(IsReused(slot, reuse_count));
    EXPECT_TRUE(failure_.ok()) << failure_.ToString();
    EXPECT_EQ(listener_->detach_count, 1u);
    EXPECT_NE(ReuseCount(), reuse_count);
    ASSERT_NO_FATAL_FAILURE(Cut());
  }
}

TEST_F(FollowerSlotsTest, ARowThatCannotBeReadFailsItsReaders) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  FailingCalls failing(CallKind::kPread, format::kRowsName, EIO);
  const ScopedHook hook(&failing);
  EXPECT_TRUE(IsReused(kRow, ReuseCount()));
  EXPECT_EQ(failure_.code(), Code::kIOError);
  EXPECT_EQ(failure_.error(), EIO) << failure_.ToString();
}

// Its writer is in the middle of one of the two images, and the other one counts.
TEST_F(FollowerSlotsTest, ARowThatIsBeingWrittenHasAnImage) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  // The row as it was, and then with the first words of what it is now.
  format::RowImages before{};
  bool is_torn = false;
  ChangedReads reads(format::kRowsName, [&](char* bytes, size_t size, off_t, uint64_t) {
    if (size != sizeof(before)) return;
    auto* const now = reinterpret_cast<format::RowImages*>(bytes);
    if (!is_torn) {
      before = *now;
      return;
    }
    for (int i = 0; i < 2; ++i) before.images[i].begin = now->images[i].begin;
    *now = before;
  });
  const uint64_t reuse_count = ReuseCount();
  {
    const ScopedHook hook(&reads);
    ASSERT_FALSE(IsReused(kRow, reuse_count));
  }
  ASSERT_NO_FATAL_FAILURE(
      GiveUpSlots(writer_.get(), /*bucket=*/0, /*row=*/1, SlotBits::First(kRow / 2)));
  is_torn = true;
  reads.count = 0;
  const ScopedHook hook(&reads);
  EXPECT_FALSE(IsReused(kRow, reuse_count));
  EXPECT_EQ(reads.count, 1u);
  EXPECT_EQ(ReuseCount(), reuse_count);
}

// Moved records make the listener's slots wrong, though the count is the old one.
TEST_F(FollowerSlotsTest, MovedRecordsResetTheBucket) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  ASSERT_NO_FATAL_FAILURE(MoveRow(1));
  ASSERT_NO_FATAL_FAILURE(Append(1));
  // Rows are asked for once the new records lie beyond those that are known.
  ASSERT_NO_FATAL_FAILURE(Append(kRow));
  ASSERT_TRUE(Refresh().ok());
  EXPECT_EQ(reset_, std::vector<uint32_t>{0});
  EXPECT_EQ(listener_->append_count, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectAll(4 * kRow + 1));
}

// Rows lie in segments that the follower has not known.
TEST_F(FollowerSlotsTest, RowsInNewSegmentsAreFound) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(Append(2 * kRow));
    const Status refreshed = Refresh();
    ASSERT_TRUE(refreshed.ok()) << refreshed.ToString();
  }
  EXPECT_EQ(listener_->append_count, 6 * kRow);
  ASSERT_NO_FATAL_FAILURE(ExpectAll(9 * kRow));
}

// A staged value whose group moved to the log. Its place has other values by now, and its segment
// had no place when the follower read the table.
// Row 0 gives its place back, a row of bucket 1 gets that, and row 0 gets another one.
TEST_F(FollowerSlotsTest, ARowThatGotAnotherPlaceIsReadThere) {
  ASSERT_NO_FATAL_FAILURE(FollowMovedRows());
  uint64_t place = 0;
  ASSERT_TRUE(writer_->slots().NumberOf(0, 0, &place));
  const auto append_others = [&](uint64_t first) {
    for (uint64_t key = kKeyStep + first; key < kKeyStep + first + kRow; ++key) {
      ASSERT_TRUE(writer_->Append(key, ValueOf(key, 1).data()).ok());
    }
  };
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_TRUE(writer_->mover().Settle().ok());
    ASSERT_TRUE(Refresh().ok());
    ASSERT_NO_FATAL_FAILURE(ExpectAll(3 * kRow));
    ASSERT_NO_FATAL_FAILURE(append_others(step * kRow));
  }
  uint64_t number = 0;
  ASSERT_TRUE(writer_->slots().NumberOf(1, 1, &number));
  ASSERT_EQ(number, place);
  // As if the follower had looked where the row was.
  ASSERT_TRUE(Refresh().ok());
  ASSERT_NO_FATAL_FAILURE(Append(kRow));
  ASSERT_TRUE(writer_->slots().NumberOf(0, 0, &number));
  ASSERT_NE(number, place);
  ASSERT_TRUE(Refresh().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectAll(4 * kRow));
  for (const uint32_t bucket : {0, 1}) {
    for (const KeyRecord& record : RecordsOf(follower_.get(), bucket)) {
      ASSERT_EQ(ReadSlot(*follower_, bucket, record.slot), ValueOf(record.key, 1)) << record.slot;
    }
  }
}

// Row 0 has no place when the follower comes, and holds moved records when it looks again. Nothing
// but the births of the head says that the row has a place by then.
TEST_F(FollowerSlotsTest, ARowThatGotItsPlaceBackIsFound) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(3 * kRow));
  ASSERT_NO_FATAL_FAILURE(MoveRow(0));
  // Into a row that stays the last one.
  ASSERT_NO_FATAL_FAILURE(Append(10));
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(Release());
  ASSERT_FALSE(writer_->slots().HasPlace(0, 0));
  ASSERT_NO_FATAL_FAILURE(Follow());
  listener_ = std::make_unique<DetachListener>(follower_.get());
  ASSERT_NO_FATAL_FAILURE(Cut());
  const uint64_t reuse_count = ReuseCount();
  ASSERT_NO_FATAL_FAILURE(MoveRow(1));
  ASSERT_TRUE(writer_->slots().HasPlace(0, 0));
  ASSERT_NO_FATAL_FAILURE(Release());
  EXPECT_TRUE(IsReused(kRow, reuse_count));
  ASSERT_NO_FATAL_FAILURE(ExpectAll(3 * kRow + 10));
}

TEST_F(FollowerSlotsTest, AStagedValueThatIsInTheLogByNowIsReadThere) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(1));
  ASSERT_EQ(ReadSlot(*follower_, 0, 0), ValueOf(0, 1));
  ASSERT_NO_FATAL_FAILURE(Append(100));
  EXPECT_EQ(ReadSlot(*follower_, 0, 0), ValueOf(0, 1));
  EXPECT_EQ(follower_->RecordCount(0), 1u);
}

// Likewise the entries of a cut.
TEST_F(FollowerSlotsTest, StagedEntriesOfACutAreThoseOfTheRefresh) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  ASSERT_NO_FATAL_FAILURE(Append(5 * kRow));
  ASSERT_NO_FATAL_FAILURE(ExpectAll(10));
}

}  // namespace
}  // namespace engine_race::test

// Rows that RowMover cannot publish, or only in part.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/log/row_mover.h"
#include "test/index/refused_memory.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/row_mover_fixture.h"

namespace engine_race::test {
namespace {

// An index that has no memory after `room_count` records.
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
    ASSERT_TRUE(log_->reader().CutBucket(0, /*first_sequence=*/0, listener, &cut).ok());
    ASSERT_TRUE(mover.Claim(0));
    ASSERT_TRUE(mover.Begin(0).ok());
    free_count_ = mover.FreeRowCount(0);
    ASSERT_TRUE(mover.TakeRow(0, /*kept_count=*/0, &moved_row_).ok());
    published_ = mover.Publish(0, moved_row_, horizon, moved);
    mover.Unclaim(0);
    log_->reader().DetachListener(0);
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
  EXPECT_EQ(RowOnDisk(moved_row_).held, SlotBits::First(3));
  BucketCut cut;
  ASSERT_TRUE(log_->reader().LookAtBucket(0, /*first_sequence=*/0, &cut).ok());
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

TEST_F(RefusedPublishTest, ARowThatFindsNoMemoryIsFreeAgain) {
  RowMover& mover = log_->mover();
  std::vector<KeyRecord> moved = FirstRow();
  ASSERT_TRUE(mover.Claim(0));
  ASSERT_TRUE(mover.Begin(0).ok());
  free_count_ = mover.FreeRowCount(0);
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    ASSERT_TRUE(mover.TakeRow(0, /*kept_count=*/0, &moved_row_).ok());
    const RefuseMemory refusal(passed);
    published_ = mover.Publish(0, moved_row_, log_->RecordCount(0), moved);
    refused = refusal.refused();
    EXPECT_EQ(published_.code(), refused ? Code::kOutOfMemory : Code::kOk) << passed;
    EXPECT_EQ(mover.FreeRowCount(0), refused ? free_count_ : free_count_ - 1) << passed;
  }
  mover.Unclaim(0);
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

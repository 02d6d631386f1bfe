// Words that lead to frames, through merges, splits, sweeps and history.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/frames_test_util.h"

namespace engine_race {
namespace {

using test::Cold;
using test::ColdAt;
using test::Hot;
using test::HotAt;
using test::SpacedRecords;
using test::TestFrames;
using test::Unswizzled;
using test::View;
using test::WatchedBuckets;

constexpr uint32_t kFramedRecords = 400;
constexpr uint64_t kStep = 10;

// A bucket with keys 0, 10, 20 ... in slots 0, 1, 2 ..., and frames.
class BucketFramesTest : public ::testing::Test {
 protected:
  explicit BucketFramesTest(size_t split_keys = BucketIndex::kSplitKeys)
      : buckets_(1, split_keys), frames_(128, &buckets_.bucket()) {
    buckets_.Install(SpacedRecords(kFramedRecords, kStep));
  }

  BucketIndex& index() { return buckets_.bucket(); }
  uint32_t Write(uint64_t key) {
    buckets_.Write(key, slot_);
    return slot_++;
  }
  // Reclaim writes the record of a key with `checksum` to another slot.
  uint32_t Move(uint64_t key, uint32_t checksum) {
    EXPECT_TRUE(index().Prepare().ok());
    const uint64_t hash = uint64_t{checksum} << (64 - format::kChecksumBits);
    index().OnAppend({.key = key, .sequence = slot_, .value_hash = hash, .slot = slot_},
                     /*moved=*/true);
    return slot_++;
  }
  // Appends records of other keys until a merge must have happened.
  void WriteUntilMerged(uint64_t first_key) {
    for (uint64_t i = 0; i < 2 * DeltaLimit(kFramedRecords); ++i) Write(first_key + i * kStep);
  }
  void ExpectOrphan(uint32_t frame) {
    EXPECT_FALSE(frames_.Cool(frame));
    EXPECT_FALSE(frames_.Heat(frame));
    EXPECT_EQ(frames_.Unswizzle(frame, /*only_cooling=*/true), Unswizzled::kOrphaned);
    EXPECT_EQ(frames_.Unswizzle(frame), Unswizzled::kOrphaned) << "and stays one";
  }

  WatchedBuckets buckets_;
  TestFrames frames_;
  uint32_t slot_ = kFramedRecords;
};

// From a run, and then within the delta. What the frame leads to is the new slot.
TEST_F(BucketFramesTest, AMovedRecordKeepsItsFrame) {
  ASSERT_TRUE(frames_.Swizzle(50, 3));
  for (int i = 0; i < 2; ++i) {
    const std::string slot = "slot " + std::to_string(Move(50, 5));
    EXPECT_EQ(Hot(index(), 50), "frame 3");
    EXPECT_EQ(Cold(index(), 50), slot);
  }
  ASSERT_TRUE(frames_.Cool(3));
  const std::string slot = "slot " + std::to_string(Move(50, 5));
  EXPECT_EQ(Hot(index(), 50), "cooling frame 3");
  WriteUntilMerged(1);
  EXPECT_EQ(Hot(index(), 50), "cooling frame 3");
  EXPECT_EQ(frames_.Unswizzle(3), Unswizzled::kDone);
  EXPECT_EQ(Hot(index(), 50), slot);
}

// A view goes on to the slot that it showed before. Only one word leads to the frame.
TEST_F(BucketFramesTest, AViewOfAMovedRecordHasItsOldSlot) {
  ASSERT_TRUE(frames_.Swizzle(50, 3));
  View before = buckets_.Take();
  const std::string slot = "slot " + std::to_string(Move(50, 5));
  EXPECT_EQ(HotAt(index(), 50, before), "slot 5");
  EXPECT_EQ(Hot(index(), 50), "frame 3");
  View after = buckets_.Take();
  const std::string next = "slot " + std::to_string(Move(50, 5));
  EXPECT_EQ(HotAt(index(), 50, before), "slot 5");
  EXPECT_EQ(HotAt(index(), 50, after), slot);
  EXPECT_EQ(Cold(index(), 50), next);
  EXPECT_EQ(frames_.Unswizzle(3), Unswizzled::kDone);
  ViewRegistry::Release(&before);
  ViewRegistry::Release(&after);
}

TEST_F(BucketFramesTest, ARecordWithoutAFrameMovesWithoutOne) {
  const std::string slot = "slot " + std::to_string(Move(50, 5));
  EXPECT_EQ(Hot(index(), 50), slot);
}

TEST_F(BucketFramesTest, APublishedRunsRecordLeadsToItsFrame) {
  ASSERT_TRUE(frames_.Swizzle(50, 3));
  ValueRef ref;
  ASSERT_NE(index().published(), nullptr);
  ASSERT_TRUE(index().published()->FindNear(50, {}, &ref)) << "without the lock";
  EXPECT_EQ(ref.frame(), 3U);
  EXPECT_EQ(ref.value_checksum(), 5U);
  EXPECT_EQ(Cold(index(), 50), "slot 5");
  EXPECT_EQ(Hot(index(), 60), "slot 6");
  EXPECT_EQ(frames_.Unswizzle(3), Unswizzled::kDone);
  EXPECT_EQ(Hot(index(), 50), "slot 5");
}

TEST_F(BucketFramesTest, RangesGiveSlots) {
  ASSERT_TRUE(frames_.Swizzle(50, 3));
  const uint32_t slot = Write(60);
  ASSERT_TRUE(frames_.Swizzle(60, 4));
  std::vector<IndexEntry> entries;
  bool complete = false;
  ASSERT_EQ(index().Collect(40, 70, 10, &entries, &complete), Code::kOk);
  ASSERT_EQ(entries.size(), 4U);
  for (const IndexEntry& entry : entries) ASSERT_FALSE(entry.ref.hot()) << entry.key;
  EXPECT_EQ(entries[1].ref.slot(), 5U);
  EXPECT_EQ(entries[2].ref.slot(), slot);
}

TEST_F(BucketFramesTest, OnlyTheNewestRecordIsSwizzledAndOnlyOnce) {
  ValueRef old;
  ASSERT_EQ(index().Find(50, &old), Code::kOk);
  const uint32_t slot = Write(50);
  EXPECT_FALSE(frames_.Swizzle(50, old, 1)) << "a write came in between";
  EXPECT_EQ(Hot(index(), 50), "slot " + std::to_string(slot));
  ASSERT_TRUE(frames_.Swizzle(50, 1));
  EXPECT_FALSE(frames_.Swizzle(50, 2));
  EXPECT_EQ(Hot(index(), 50), "frame 1");
  EXPECT_FALSE(frames_.Swizzle(55, old, 2)) << "no such key";
  buckets_.Write(60, slot_++, /*tombstone=*/true);
  EXPECT_FALSE(frames_.Swizzle(60, ValueRef(6, 6, false), 2));
  EXPECT_FALSE(frames_.Swizzle(60, ValueRef(slot_ - 1, 0, true), 2));
  EXPECT_EQ(Hot(index(), 60), "nothing");
}

TEST_F(BucketFramesTest, MarksSayWhoMayGo) {
  for (const uint64_t key : {50, 60}) {
    SCOPED_TRACE(key);
    if (key == 60) Write(60);
    ASSERT_TRUE(frames_.Swizzle(key, 7));
    EXPECT_EQ(frames_.Unswizzle(7, /*only_cooling=*/true), Unswizzled::kHeated);
    EXPECT_TRUE(frames_.Cool(7));
    EXPECT_TRUE(frames_.Cool(7)) << "again";
    EXPECT_EQ(Hot(index(), key), "cooling frame 7");
    EXPECT_TRUE(frames_.Heat(7));
    EXPECT_TRUE(frames_.Heat(7)) << "again";
    EXPECT_EQ(Hot(index(), key), "frame 7");
    EXPECT_EQ(frames_.Unswizzle(7, /*only_cooling=*/true), Unswizzled::kHeated);
    EXPECT_TRUE(frames_.Cool(7));
    EXPECT_EQ(frames_.Unswizzle(7, /*only_cooling=*/true), Unswizzled::kDone);
    EXPECT_FALSE(index().Heat(key, 7)) << "too late";
    EXPECT_FALSE(index().Cool(key, 7));
    EXPECT_FALSE(Hot(index(), key).ends_with("frame 7"));
  }
}

TEST_F(BucketFramesTest, OtherFramesAndKeysAreLeftAlone) {
  ASSERT_TRUE(frames_.Swizzle(50, 7));
  EXPECT_FALSE(index().Cool(50, 8));
  EXPECT_FALSE(index().Cool(60, 7));
  EXPECT_FALSE(index().Cool(55, 7));
  EXPECT_EQ(index().Unswizzle(50, 8, false), Unswizzled::kOrphaned);
  EXPECT_EQ(index().Unswizzle(60, 7, false), Unswizzled::kOrphaned);
  // Slot 7 is not frame 7.
  EXPECT_FALSE(index().Cool(70, 7));
  EXPECT_EQ(index().Unswizzle(70, 7, false), Unswizzled::kOrphaned);
  EXPECT_EQ(Hot(index(), 50), "frame 7");
  EXPECT_EQ(Hot(index(), 70), "slot 7");
}

TEST_F(BucketFramesTest, AnOverwrittenDeltaRecordLeavesAnOrphan) {
  Write(50);
  ASSERT_TRUE(frames_.Swizzle(50, 7));
  const uint32_t slot = Write(50);
  EXPECT_EQ(Hot(index(), 50), "slot " + std::to_string(slot)) << "seen at once";
  ASSERT_TRUE(frames_.Swizzle(50, 8)) << "the new one has a frame of its own";
  ExpectOrphan(7);
  EXPECT_EQ(Hot(index(), 50), "frame 8");
}

TEST_F(BucketFramesTest, ViewsStillFindASupersededRecordsFrame) {
  const uint32_t in_delta = Write(60);
  ASSERT_TRUE(frames_.Swizzle(50, 7));
  ASSERT_TRUE(frames_.Swizzle(60, 8));
  View view = buckets_.Take();
  const uint32_t slot = Write(50);
  Write(60);
  EXPECT_EQ(Hot(index(), 50), "slot " + std::to_string(slot));
  EXPECT_EQ(HotAt(index(), 50, view), "frame 7");
  EXPECT_EQ(ColdAt(index(), 50, view), "slot 5");
  EXPECT_EQ(HotAt(index(), 60, view), "frame 8");
  EXPECT_EQ(ColdAt(index(), 60, view), "slot " + std::to_string(in_delta));
  ExpectOrphan(7);
  ExpectOrphan(8);
  EXPECT_EQ(HotAt(index(), 50, view), "slot 5");
  EXPECT_EQ(HotAt(index(), 60, view), "slot " + std::to_string(in_delta));
  ViewRegistry::Release(&view);
}

TEST_F(BucketFramesTest, ASupersededRecordGoesEvenIfItWasNeverMarked) {
  ASSERT_TRUE(frames_.Swizzle(50, 7));
  View view = buckets_.Take();
  Write(50);
  EXPECT_EQ(frames_.Unswizzle(7, /*only_cooling=*/true), Unswizzled::kOrphaned);
  EXPECT_EQ(HotAt(index(), 50, view), "slot 5");
  ViewRegistry::Release(&view);
}

TEST_F(BucketFramesTest, ADeletedKeysFrameIsAnOrphan) {
  ASSERT_TRUE(frames_.Swizzle(50, 7));
  View view = buckets_.Take();
  buckets_.Write(50, slot_++, /*tombstone=*/true);
  EXPECT_EQ(Hot(index(), 50), "nothing");
  EXPECT_EQ(Cold(index(), 50), "nothing");
  EXPECT_EQ(HotAt(index(), 50, view), "frame 7");
  ExpectOrphan(7);
  EXPECT_EQ(HotAt(index(), 50, view), "slot 5");
  ViewRegistry::Release(&view);
  WriteUntilMerged(5);
  ExpectOrphan(7);
}

TEST_F(BucketFramesTest, WhatAGrowingDeltaHoldsStaysHot) {
  const uint32_t slot = Write(50);
  ASSERT_TRUE(frames_.Swizzle(50, 7));
  for (uint64_t i = 0; i < 40; ++i) Write(1000 + i);
  EXPECT_EQ(Hot(index(), 50), "frame 7");
  EXPECT_EQ(Cold(index(), 50), "slot " + std::to_string(slot));
  EXPECT_EQ(frames_.Unswizzle(7), Unswizzled::kDone);
}

TEST_F(BucketFramesTest, MergesCarryOverWhatIsStillTheNewest) {
  View view = buckets_.Take();
  Write(60);
  Write(70);
  for (const uint64_t key : {40, 50, 60, 70}) {
    ASSERT_TRUE(frames_.Swizzle(key, static_cast<uint32_t>(key)));
  }
  ASSERT_TRUE(frames_.Cool(40));
  Write(50);
  Write(70);
  ASSERT_EQ(HotAt(index(), 50, view), "frame 50");
  WriteUntilMerged(5);
  // The history has slots, not frames, for every reader.
  EXPECT_EQ(HotAt(index(), 50, view), "slot 5");
  EXPECT_EQ(HotAt(index(), 60, view), "slot 6");
  EXPECT_EQ(Hot(index(), 40), "cooling frame 40") << "from the run";
  EXPECT_EQ(Cold(index(), 40), "slot 4");
  EXPECT_EQ(Hot(index(), 60), "frame 60") << "from the delta";
  EXPECT_EQ(HotAt(index(), 40, view), "cooling frame 40");
  ExpectOrphan(50);
  ExpectOrphan(70);
  EXPECT_EQ(frames_.Unswizzle(40, /*only_cooling=*/true), Unswizzled::kDone);
  EXPECT_EQ(Hot(index(), 40), "slot 4");
  EXPECT_EQ(frames_.Unswizzle(60), Unswizzled::kDone);
  ViewRegistry::Release(&view);
}

TEST_F(BucketFramesTest, UndoRecordsOfTheDeltaGetSlots) {
  const uint32_t first = Write(50);
  ASSERT_TRUE(frames_.Swizzle(50, 7));
  View view = buckets_.Take();
  Write(50);
  ASSERT_EQ(HotAt(index(), 50, view), "frame 7");
  WriteUntilMerged(5);
  EXPECT_EQ(HotAt(index(), 50, view), "slot " + std::to_string(first));
  ExpectOrphan(7);
  ViewRegistry::Release(&view);
}

TEST_F(BucketFramesTest, WhatNoViewShowsAnyMoreLeavesAnOrphan) {
  // Enough short views of a hot key for the delta to drop superseded records instead of growing.
  for (int i = 0; i < 100; ++i) {
    View view = buckets_.Take();
    Write(50);
    if (i == 0) {
      ASSERT_TRUE(frames_.Swizzle(50, 7));
    }
    ViewRegistry::Release(&view);
  }
  ExpectOrphan(7);
  EXPECT_EQ(Hot(index(), 50), "slot " + std::to_string(slot_ - 1));
}

class SmallPartsFramesTest : public BucketFramesTest {
 protected:
  // The bucket's records make one part, and any more split it.
  SmallPartsFramesTest() : BucketFramesTest(kFramedRecords) {}
};

TEST_F(SmallPartsFramesTest, SplitPartsKeepTheirFrames) {
  for (uint32_t i = 0; i < 40; ++i) ASSERT_TRUE(frames_.Swizzle(i * 100, i));
  WriteUntilMerged(5);
  for (uint32_t i = 0; i < 40; ++i) {
    ASSERT_EQ(Hot(index(), i * 100), "frame " + std::to_string(i));
    ASSERT_EQ(Cold(index(), i * 100), "slot " + std::to_string(i * 10));
    ASSERT_EQ(frames_.Unswizzle(i), Unswizzled::kDone);
  }
}

TEST_F(SmallPartsFramesTest, APartOfAppendedKeysLeavesTheOldRunsWordsAlone) {
  constexpr uint64_t kAbove = kFramedRecords * kStep;
  ASSERT_TRUE(frames_.Swizzle(0, 1));
  ASSERT_TRUE(frames_.Swizzle(kAbove - kStep, 2));
  const uint32_t slot = Write(kAbove);
  ASSERT_TRUE(frames_.Swizzle(kAbove, 3));
  WriteUntilMerged(kAbove + kStep);
  EXPECT_EQ(Hot(index(), 0), "frame 1");
  EXPECT_EQ(Hot(index(), kAbove - kStep), "frame 2");
  EXPECT_EQ(Hot(index(), kAbove), "frame 3");
  EXPECT_EQ(Cold(index(), kAbove), "slot " + std::to_string(slot));
  for (const uint32_t frame : {1, 2, 3}) EXPECT_EQ(frames_.Unswizzle(frame), Unswizzled::kDone);
}

TEST(BucketWithoutFramesTest, WhereNothingIsKnownNothingIsSwizzled) {
  WatchedBuckets buckets(3);
  TestFrames expecting(1, &buckets.bucket(0));
  EXPECT_FALSE(expecting.Swizzle(50, ValueRef(5, 5, false), 0));
  EXPECT_EQ(expecting.Unswizzle(0), Unswizzled::kOrphaned);
  buckets.Install({}, 1);
  TestFrames empty(1, &buckets.bucket(1));
  EXPECT_FALSE(empty.Swizzle(50, ValueRef(5, 5, false), 0));
  EXPECT_FALSE(empty.Cool(0));
  EXPECT_EQ(empty.Unswizzle(0), Unswizzled::kOrphaned);
}

TEST(BucketWithoutFramesTest, ADamagedBucketIsReadFromTheLog) {
  WatchedBuckets buckets(1);
  buckets.Install(SpacedRecords(kFramedRecords, kStep), 0, /*damaged=*/true);
  TestFrames frames(1, &buckets.bucket());
  ASSERT_EQ(Hot(buckets.bucket(), 50), "slot 5") << "provably the newest";
  EXPECT_FALSE(frames.Swizzle(50, 0));
  EXPECT_EQ(Hot(buckets.bucket(), 50), "slot 5");
}

}  // namespace
}  // namespace engine_race

// The table of segments: places are given once, found again, and outlive a kill.
#include "engine_race/log/segment_table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"
#include "test/faults/call_watch.h"
#include "test/log/segment_table_fixture.h"

namespace engine_race::test {
namespace {

TEST_F(SegmentTableTest, PlacesAreGivenOnceAndFoundAgain) {
  for (uint64_t index = 0; index < 300; ++index) {
    for (uint32_t bucket = 0; bucket < 8; bucket += 1 + bucket % 3) {
      ASSERT_TRUE(Give(bucket, index).ok());
    }
  }
  ASSERT_TRUE(Give(7, 1000).ok()) << "far behind the others";
  const auto all = All();
  EXPECT_GE(all.size(), 300U * 4 + 1);
  ExpectDistinct();
  for (const auto& [segment, place] : all) {
    EXPECT_EQ(place.first, segment.first / 4) << "neighbouring buckets share a file";
  }
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 0U);
  EXPECT_EQ(All(), all);
  ASSERT_TRUE(Give(0, 600).ok());
  ExpectDistinct();
}

TEST_F(SegmentTableTest, ALargeBucketGetsNeighbours) {
  for (uint64_t index = 0; index < 640; ++index) ASSERT_TRUE(Give(3, index).ok());
  // The first ones come one by one, and the last ones forty at a time.
  EXPECT_LE(table_->SegmentEnd(3), 640U + 64);
  ASSERT_TRUE(Give(2, 0).ok());
  for (uint64_t index = 640; index < 700; ++index) ASSERT_TRUE(Give(3, index).ok());
  SegmentPlace before;
  SegmentPlace place;
  uint64_t pieces = 0;
  for (uint64_t index = 1; index < 700; ++index) {
    ASSERT_TRUE(table_->Find(3, index - 1, &before) && table_->Find(3, index, &place));
    if (place.place != before.place + 1) ++pieces;
  }
  EXPECT_EQ(pieces, 1U);
}

// A file grows once the writes to it that are under way have ended.
TEST_F(SegmentTableTest, OtherSegmentsAreGivenWhileAFileGrows) {
  const auto has_room = [this](uint32_t file, uint64_t place_count) {
    return place_count <= grown_[file];
  };
  SegmentPlace other;
  const auto grow = [&](uint32_t file, uint64_t place_count) {
    // Another file's, and one that takes the place that was chosen.
    EXPECT_TRUE(Give(7, 0).ok());
    EXPECT_TRUE(Give(1, 0).ok());
    EXPECT_TRUE(table_->Find(1, 0, &other));
    grown_[file] = std::max(grown_[file], place_count);
    return Status::Ok();
  };
  ASSERT_TRUE(table_->Give(0, 0, FreeBytesOf(), has_room, grow).ok());
  SegmentPlace place;
  ASSERT_TRUE(table_->Find(0, 0, &place));
  EXPECT_EQ(place.file, other.file);
  EXPECT_NE(place.place, other.place);
  ExpectDistinct();
}

TEST_F(SegmentTableTest, PathsTakeTurnsAndAFullOneIsLeftOut) {
  paths_ = {{0, 1, 5}, {1, 1, 3}};
  ASSERT_TRUE(Load().ok());
  for (uint64_t index = 0; index < 8; ++index) ASSERT_TRUE(Give(1, index).ok());
  ExpectDistinct();
  EXPECT_EQ(table_->given_count(0), 5U);
  EXPECT_EQ(table_->given_count(1), 3U);
  EXPECT_EQ(Give(1, 8).code(), Code::kFull);
  EXPECT_EQ(Give(2, 0).code(), Code::kFull);
  SegmentPlace place;
  ASSERT_TRUE(table_->Find(1, 0, &place));
  EXPECT_EQ(place.file, 1U) << "a bucket begins with a path of its own";
  ASSERT_TRUE(table_->Find(1, 1, &place));
  EXPECT_EQ(place.file, 0U);
}

// Eight buckets on two paths: four segments of each path may be given and not full.
TEST_F(SegmentTableTest, APathThatLacksSpaceIsLeftOutWhileAnotherHasMore) {
  paths_ = {{0, 1, format::kMaxFilePlaces}, {1, 1, format::kMaxFilePlaces}};
  ASSERT_TRUE(Load().ok());
  const uint64_t unfilled_bytes = 4 * geometry_.segment_value_bytes();
  free_bytes_ = {{0, unfilled_bytes - 1}, {1, 2 * unfilled_bytes}};
  for (uint64_t index = 0; index < 6; ++index) ASSERT_TRUE(Give(0, index).ok());
  EXPECT_EQ(table_->given_count(0), 0U);
  EXPECT_EQ(table_->given_count(1), 6U);
  free_bytes_ = {{0, unfilled_bytes}, {1, unfilled_bytes}};
  for (uint64_t index = 6; index < 10; ++index) ASSERT_TRUE(Give(0, index).ok());
  EXPECT_EQ(table_->given_count(0), 2U) << "in turn";
  free_bytes_ = {{0, 5}, {1, 1}};
  for (uint64_t index = 10; index < 14; ++index) ASSERT_TRUE(Give(0, index).ok());
  EXPECT_EQ(table_->given_count(0), 6U) << "where there is most";
  free_bytes_ = {{0, 5}, {1, 3}};
  for (uint64_t index = 14; index < 18; ++index) ASSERT_TRUE(Give(0, index).ok());
  EXPECT_EQ(table_->given_count(0), 8U) << "in turn, where there is about as much";
  free_bytes_ = {{0, 0}, {1, 0}};
  for (uint64_t index = 18; index < 22; ++index) ASSERT_TRUE(Give(0, index).ok());
  EXPECT_EQ(table_->given_count(0), 10U) << "in turn: a write tells whether there is any";
}

TEST_F(SegmentTableTest, ADamagedEntryIsLost) {
  for (uint64_t index = 0; index < 4; ++index) ASSERT_TRUE(Give(0, index).ok());
  format::SegmentEntry entry;
  ASSERT_TRUE(file_.Read(&entry, sizeof(entry), 2 * sizeof(entry)).ok());
  ++entry.index;
  ASSERT_TRUE(file_.Write(&entry, sizeof(entry), 2 * sizeof(entry)).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 1U);
  SegmentPlace place;
  EXPECT_FALSE(table_->Find(0, 2, &place));
  EXPECT_TRUE(table_->Find(0, 3, &place));
}

// Each entry passes its check and names a segment far behind all others of its bucket.
TEST_F(SegmentTableTest, AHostileTableMakesNoLongLists) {
  constexpr uint64_t kEntrySeed = 0x9fb21c651e98df25;
  constexpr uint32_t kIndex = 4500;
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    const uint64_t number = bucket / 4 * format::kTablePageSegments + bucket % 4;
    const uint64_t words[] = {bucket, kIndex, number};
    const format::SegmentEntry entry = {bucket, kIndex,
                                        Hash64(words, sizeof(words), kSeed ^ kEntrySeed)};
    ASSERT_TRUE(file_.Write(&entry, sizeof(entry), number * sizeof(entry)).ok());
  }
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, geometry_.bucket_count - 1);
  EXPECT_EQ(All().size(), 1u);
}

// One file of the first path has as many segments as four of the second. So the second path's
// entries lie before the end, and most of the first path's lie behind it.
TEST_F(SegmentTableTest, ATableThatAPowerLossHasCutKeepsItsEntries) {
  constexpr uint64_t kPages = 10;
  constexpr uint64_t kFiles = 5;
  paths_ = {{0, 1, format::kMaxFilePlaces}, {1, kFiles - 1, format::kMaxFilePlaces}};
  ASSERT_TRUE(Load().ok());
  for (uint64_t index = 0; index < kPages * format::kTablePageSegments; ++index) {
    for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
      ASSERT_TRUE(Give(bucket, index).ok());
    }
  }
  const uint64_t entry_count = kPages * kFiles * format::kTablePageSegments;
  ASSERT_TRUE(file_.Truncate(entry_count * sizeof(format::SegmentEntry)).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 0U);
  EXPECT_EQ(All().size(), entry_count);
}

// An entry of a place far away takes no memory for the places between.
TEST_F(SegmentTableTest, ADamagedEntryTakesNoPlace) {
  ASSERT_TRUE(Give(0, 0).ok());
  const format::SegmentEntry entry{0, 1, 4711};
  ASSERT_TRUE(file_.Write(&entry, sizeof(entry), uint64_t{1} << 26).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 1U);
  EXPECT_EQ(table_->PlaceEnd(0), 1U);
  EXPECT_EQ(table_->PlaceEnd(1), 0U);
}

TEST_F(SegmentTableTest, APlaceThatAPowerLossFreedIsGivenAgain) {
  for (uint64_t index = 0; index < 4; ++index) ASSERT_TRUE(Give(0, index).ok());
  const format::SegmentEntry none{};
  ASSERT_TRUE(file_.Write(&none, sizeof(none), sizeof(none)).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 0U);
  EXPECT_TRUE(table_->lacks_entries());
  ASSERT_TRUE(table_->Flush().ok());
  ASSERT_TRUE(Give(1, 0).ok());
  SegmentPlace place;
  ASSERT_TRUE(table_->Find(1, 0, &place));
  EXPECT_EQ(place.place, 1U);
  ASSERT_TRUE(Load().ok());
  EXPECT_FALSE(table_->lacks_entries());
  ASSERT_TRUE(table_->SetAside(0, 4).ok());
  ASSERT_TRUE(Give(0, 1).ok());
  ASSERT_TRUE(table_->Find(0, 1, &place));
  EXPECT_EQ(place.place, 4U) << "it may hold what was lost";
  ASSERT_TRUE(table_->SetAside(0, 100).ok());
  const auto all = All();
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 0U);
  EXPECT_EQ(All(), all);
  ASSERT_TRUE(Give(0, 4).ok());
  ASSERT_TRUE(table_->Find(0, 4, &place));
  EXPECT_EQ(place.place, 100U);
}

// The lost entry may come back with the next loss of power.
TEST_F(SegmentTableTest, APlaceThatAPowerLossFreedIsGivenAfterAFlush) {
  for (uint64_t index = 0; index < 4; ++index) ASSERT_TRUE(Give(0, index).ok());
  const format::SegmentEntry none{};
  ASSERT_TRUE(file_.Write(&none, sizeof(none), sizeof(none)).ok());
  ASSERT_TRUE(Load().ok());
  ASSERT_TRUE(Give(1, 0).ok());
  SegmentPlace place;
  ASSERT_TRUE(table_->Find(1, 0, &place));
  EXPECT_EQ(place.place, 4U);
  // It does not look lost for ever.
  ASSERT_TRUE(table_->WriteAgain().ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_FALSE(table_->lacks_entries());
}

// After a failed flush the kernel may drop pages that it holds for clean.
TEST_F(SegmentTableTest, WriteAgainWritesWhatWasLoaded) {
  for (uint64_t index = 0; index < 600; ++index) ASSERT_TRUE(Give(index % 8, index / 8).ok());
  const auto all = All();
  ASSERT_TRUE(Load().ok());
  ASSERT_TRUE(file_.Truncate(0).ok());
  ASSERT_TRUE(table_->WriteAgain().ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(All(), all);
}

TEST_F(SegmentTableTest, TwoEntriesOfOneSegmentAreCorruption) {
  ASSERT_TRUE(Give(0, 0).ok());
  const auto other = std::make_unique<SegmentTable>(geometry_, kSeed, paths_);
  const auto has_room = [](uint32_t, uint64_t) { return true; };
  const auto grow = [](uint32_t, uint64_t) { return Status::Ok(); };
  io::File copy;
  ASSERT_TRUE(
      io::File::Open(dir_fd_.get(), "copy", io::Access::kReplace, io::Caching::kBuffered, &copy)
          .ok());
  ASSERT_TRUE(other->Load(copy, &damaged_count_).ok());
  ASSERT_TRUE(other->Give(1, 0, FreeBytesOf(), has_room, grow).ok());
  ASSERT_TRUE(other->Give(0, 0, FreeBytesOf(), has_room, grow).ok());
  format::SegmentEntry entry;
  ASSERT_TRUE(copy.Read(&entry, sizeof(entry), sizeof(entry)).ok());
  ASSERT_TRUE(file_.Write(&entry, sizeof(entry), sizeof(entry)).ok());
  EXPECT_EQ(Load().code(), Code::kCorruption);
}

TEST_F(SegmentTableTest, APlaceThatTheDeviceDoesNotHaveIsLost) {
  for (uint64_t index = 0; index < 4; ++index) ASSERT_TRUE(Give(0, index).ok());
  paths_ = {{0, 2, 3}};
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 1U);
  EXPECT_EQ(All().size(), 3U);
}

TEST_F(SegmentTableTest, ATableOfAnotherStoreHasNoEntries) {
  ASSERT_TRUE(Give(0, 0).ok());
  SegmentTable other(geometry_, kSeed + 1, paths_);
  ASSERT_TRUE(other.Load(file_, &damaged_count_).ok());
  EXPECT_EQ(damaged_count_, 1U);
  EXPECT_EQ(other.SegmentEnd(0), 0U);
}

TEST_F(SegmentTableTest, AFullDiskGivesNothing) {
  FailingCalls failing(CallKind::kPwrite, format::kSegmentTableName, ENOSPC);
  {
    const ScopedHook hook(&failing);
    EXPECT_EQ(Give(0, 0).code(), Code::kFull);
  }
  EXPECT_EQ(table_->SegmentEnd(0), 0U);
  ASSERT_TRUE(Give(0, 0).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(table_->SegmentEnd(0), 1U);
}

// The entry may be there. One more of the same segment would be corruption.
TEST_F(SegmentTableTest, AWriteThatFailedIsTheLastOne) {
  ASSERT_TRUE(Give(0, 0).ok());
  CallWatch failing([](SystemCall* call) -> long {
    const long result = call->Proceed();
    if (call->kind != CallKind::kPwrite) return result;
    errno = EIO;
    return -1;
  });
  {
    const ScopedHook hook(&failing);
    EXPECT_EQ(Give(0, 1).code(), Code::kIOError);
  }
  EXPECT_EQ(Give(0, 1).code(), Code::kIOError);
  EXPECT_EQ(Give(1, 0).code(), Code::kIOError);
  EXPECT_TRUE(Give(0, 0).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_TRUE(Give(0, 1).ok());
  EXPECT_TRUE(Give(1, 0).ok());
  ExpectDistinct();
}

TEST_F(SegmentTableTest, AFlushThatFailedFailsForGood) {
  ASSERT_TRUE(table_->Flush().ok()) << "an earlier opening may have given places";
  int flush_count = 0;
  CallWatch watch([&flush_count](SystemCall* call) {
    if (call->kind == CallKind::kFdatasync) ++flush_count;
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    ASSERT_TRUE(table_->Flush().ok());
    EXPECT_EQ(flush_count, 0) << "nothing was given";
    ASSERT_TRUE(Give(0, 0).ok());
    ASSERT_TRUE(table_->Flush().ok());
    EXPECT_EQ(flush_count, 1);
    ASSERT_TRUE(table_->WriteAgain().ok());
    ASSERT_TRUE(table_->Flush().ok());
    EXPECT_EQ(flush_count, 2);
  }
  ASSERT_TRUE(Give(0, 1).ok());
  FailingCalls failing(CallKind::kFdatasync, format::kSegmentTableName, EIO);
  {
    const ScopedHook hook(&failing);
    EXPECT_EQ(table_->Flush().code(), Code::kIOError);
  }
  EXPECT_EQ(table_->Flush().code(), Code::kIOError);
}

TEST_F(SegmentTableTest, ReadersFindWhatIsGivenBesideThem) {
  constexpr uint64_t kCount = 2000;
  std::atomic<uint64_t> given{0};
  std::thread reader([&] {
    for (uint64_t seen = 0; seen < kCount;) {
      seen = given.load(std::memory_order_acquire);
      SegmentPlace place;
      for (uint64_t index = 0; index < seen; index += 97) {
        ASSERT_TRUE(table_->Find(5, index, &place));
      }
    }
  });
  for (uint64_t index = 0; index < kCount; ++index) {
    ASSERT_TRUE(Give(5, index).ok());
    given.store(index + 1, std::memory_order_release);
  }
  reader.join();
}

}  // namespace
}  // namespace engine_race::test

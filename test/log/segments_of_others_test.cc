// What another process adds to a table of segments.
#include "engine_race/log/segment_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine_race/base/guarded.h"
#include "test/faults/call_watch.h"
#include "test/index/refused_memory.h"
#include "test/log/segment_table_fixture.h"

namespace engine_race::test {
namespace {

// Another process has given them. The file of a place is made ready before the place can be found.
TEST_F(SegmentTableTest, WhatOthersHaveGivenABucketIsFound) {
  ASSERT_TRUE(Give(1, 0).ok());
  SegmentTable reader(geometry_, kSeed, paths_);
  ASSERT_TRUE(reader.Load(file_, &damaged_count_).ok());
  SegmentPlace place;
  EXPECT_TRUE(reader.Find(1, 0, &place));
  EXPECT_FALSE(reader.Find(1, 1, &place));
  ASSERT_TRUE(Give(1, 1).ok());
  ASSERT_TRUE(Give(3, 0).ok());
  ASSERT_TRUE(Give(7, 0).ok());
  EXPECT_FALSE(reader.Find(1, 1, &place));
  int open_count = 0;
  const auto open = [&](uint32_t file) {
    EXPECT_EQ(file, 0u);
    EXPECT_EQ(reader.Find(1, 1, &place), open_count != 0);
    ++open_count;
    return Status::Ok();
  };
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(reader.Reload(1, open).ok());
    EXPECT_TRUE(reader.Find(1, 1, &place));
    EXPECT_FALSE(reader.Find(3, 0, &place)) << "of another bucket";
    EXPECT_FALSE(reader.Find(7, 0, &place)) << "in a file of other buckets";
    EXPECT_EQ(reader.SegmentEnd(1), 2u);
  }
  EXPECT_EQ(open_count, 2);
}

// What another process has taken back, and given anew, is found where it is now.
TEST_F(SegmentTableTest, ARowThatAnotherProcessHasMovedIsFoundAtItsNewPlace) {
  for (uint64_t index = 0; index < 3; ++index) ASSERT_TRUE(Give(1, index).ok());
  SegmentTable reader(geometry_, kSeed, paths_);
  ASSERT_TRUE(reader.Load(file_, &damaged_count_).ok());
  SegmentPlace before;
  ASSERT_TRUE(reader.Find(1, 1, &before));
  ASSERT_NO_FATAL_FAILURE(TakeBack(1, 1));
  ASSERT_TRUE(Give(3, 0).ok());
  const auto open = [](uint32_t) { return Status::Ok(); };
  SegmentPlace place;
  ASSERT_TRUE(reader.Reload(1, open).ok());
  EXPECT_FALSE(reader.Find(1, 1, &place));
  ASSERT_TRUE(reader.Reload(3, open).ok());
  ASSERT_TRUE(reader.Find(3, 0, &place));
  EXPECT_EQ(reader.NumberOf(place), reader.NumberOf(before));
  ASSERT_TRUE(Give(1, 1).ok());
  ASSERT_TRUE(reader.Reload(1, open).ok());
  ASSERT_TRUE(reader.Find(1, 1, &place));
  EXPECT_NE(reader.NumberOf(place), reader.NumberOf(before));
  EXPECT_TRUE(reader.Find(1, 2, &place));
}

// A row that its writer moves while the table is read may be read at both places.
TEST_F(SegmentTableTest, ATableThatIsReadBesideItsWriterMayHaveARowTwice) {
  for (uint64_t index = 0; index < 3; ++index) ASSERT_TRUE(Give(1, index).ok());
  format::SegmentEntry before;
  ASSERT_TRUE(file_.Read(&before, sizeof(before), sizeof(before)).ok());
  ASSERT_NO_FATAL_FAILURE(TakeBack(1, 1));
  ASSERT_TRUE(Give(3, 0).ok());
  ASSERT_TRUE(Give(1, 1).ok());
  SegmentPlace now;
  ASSERT_TRUE(table_->Find(1, 1, &now));
  ASSERT_TRUE(file_.Write(&before, sizeof(before), sizeof(before)).ok());
  SegmentTable reader(geometry_, kSeed, paths_);
  ASSERT_TRUE(reader.Load(file_, &damaged_count_, /*beside_writer=*/true).ok());
  SegmentPlace place;
  ASSERT_TRUE(reader.Find(1, 1, &place));
  EXPECT_EQ(reader.NumberOf(place), table_->NumberOf(now)) << "the last one";
  EXPECT_EQ(Load().code(), Code::kCorruption);
}

// A follower that finds no memory for a segment finds the segment later.
TEST_F(SegmentTableTest, ASegmentThatFoundNoMemoryIsTakenLater) {
  constexpr uint64_t kSegments = 40;
  ASSERT_TRUE(Give(1, 0).ok());
  std::vector<std::unique_ptr<SegmentTable>> readers;
  for (int i = 0; i < 30; ++i) {
    readers.push_back(std::make_unique<SegmentTable>(geometry_, kSeed, paths_));
    ASSERT_TRUE(readers.back()->Load(file_, &damaged_count_).ok());
  }
  for (uint64_t index = 1; index < kSegments; ++index) ASSERT_TRUE(Give(1, index).ok());
  const auto prepare = [](uint32_t) { return Status::Ok(); };
  uint64_t refused_count = 0;
  for (const std::unique_ptr<SegmentTable>& reader : readers) {
    {
      const RefuseMemory refuse(refused_count);
      const Status loaded = Guarded([&] { return reader->Reload(1, prepare); });
      EXPECT_NE(loaded.ok(), refuse.refused());
      if (!refuse.refused()) break;
    }
    ++refused_count;
    ASSERT_TRUE(reader->Reload(1, prepare).ok());
    SegmentPlace place;
    for (uint64_t index = 0; index < kSegments; ++index) {
      EXPECT_TRUE(reader->Find(1, index, &place)) << index << " after refusal " << refused_count;
    }
  }
  EXPECT_GT(refused_count, 3u);
  EXPECT_LT(refused_count, readers.size());
}

TEST_F(SegmentTableTest, ThePagesOfABucketsFileAreReadForMore) {
  constexpr uint64_t kSegments = 3000;
  for (uint64_t index = 0; index < kSegments; ++index) {
    ASSERT_TRUE(Give(1, index).ok() && Give(7, index).ok());
  }
  SegmentTable reader(geometry_, kSeed, paths_);
  ASSERT_TRUE(reader.Load(file_, &damaged_count_).ok());
  const uint64_t known_end = reader.SegmentEnd(1);
  uint64_t read_count = 0;
  uint64_t read_bytes = 0;
  CallWatch reads([&](SystemCall* call) {
    if (call->kind == CallKind::kPread) {
      ++read_count;
      read_bytes += call->size;
    }
    return call->Proceed();
  });
  const auto load = [&](uint32_t bucket) {
    const ScopedHook hook(&reads);
    read_count = read_bytes = 0;
    ASSERT_TRUE(reader.Reload(bucket, [](uint32_t) { return Status::Ok(); }).ok());
  };
  constexpr uint64_t kPageBytes = format::kTablePageSegments * sizeof(format::SegmentEntry);
  ASSERT_NO_FATAL_FAILURE(load(1));
  EXPECT_EQ(reader.SegmentEnd(1), known_end);
  // The pages of one of the two files, and one more if the table does not end with the last.
  EXPECT_LE(read_count, known_end / format::kTablePageSegments + 2);
  EXPECT_LE(read_bytes, read_count * kPageBytes);
  // Several pages have come.
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(Give(1, known_end + i).ok());
  ASSERT_NO_FATAL_FAILURE(load(1));
  EXPECT_EQ(reader.SegmentEnd(1), table_->SegmentEnd(1));
  EXPECT_LE(read_count, table_->SegmentEnd(1) / format::kTablePageSegments + 2);
  EXPECT_LE(read_bytes, read_count * kPageBytes);
}

// A damaged entry stays in front of them, and they fill pages behind its own.
TEST_F(SegmentTableTest, PlacesBehindADamagedOneAreFound) {
  ASSERT_TRUE(Give(1, 0).ok());
  SegmentPlace place;
  ASSERT_TRUE(table_->Find(1, 0, &place));
  format::SegmentEntry entry;
  const uint64_t at = table_->NumberOf(place) * sizeof(entry);
  ASSERT_TRUE(file_.Read(&entry, sizeof(entry), at).ok());
  ++entry.index;
  ASSERT_TRUE(file_.Write(&entry, sizeof(entry), at).ok());
  SegmentTable reader(geometry_, kSeed, paths_);
  ASSERT_TRUE(reader.Load(file_, &damaged_count_).ok());
  ASSERT_EQ(damaged_count_, 1u);
  constexpr uint64_t kSegments = 3 * format::kTablePageSegments;
  for (uint64_t index = 1; index < kSegments; ++index) ASSERT_TRUE(Give(1, index).ok());
  ASSERT_TRUE(reader.Reload(1, [](uint32_t) { return Status::Ok(); }).ok());
  EXPECT_EQ(reader.SegmentEnd(1), table_->SegmentEnd(1));
  EXPECT_TRUE(reader.Find(1, kSegments - 1, &place));
}

}  // namespace
}  // namespace engine_race::test

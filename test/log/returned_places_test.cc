// Places of segments that are given back, and given to others.
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "engine_race/log/segment_table.h"
#include "test/faults/call_watch.h"
#include "test/log/segment_table_fixture.h"

namespace engine_race::test {
namespace {

class ReturnedPlacesTest : public SegmentTableTest {
 protected:
  uint32_t PlaceOf(uint32_t bucket, uint64_t index) const {
    SegmentPlace place;
    EXPECT_TRUE(table_->Find(bucket, index, &place)) << bucket << ", " << index;
    return place.place;
  }
  bool HasPlace(uint32_t bucket, uint64_t index) const {
    SegmentPlace place;
    return table_->Find(bucket, index, &place);
  }
  Status GivePrepared(uint32_t bucket, uint64_t index, SegmentTable::PrepareFn prepare) {
    const auto has_room = [](uint32_t, uint64_t) { return true; };
    const auto grow = [](uint32_t, uint64_t) { return Status::Ok(); };
    return table_->Give(bucket, index, FreeBytesOf(), has_room, grow, &prepare);
  }
};

TEST_F(ReturnedPlacesTest, TheLowestPlaceIsGivenAgainOnceItIsFree) {
  for (uint64_t index = 0; index < 5; ++index) ASSERT_TRUE(Give(1, index).ok());
  SegmentPlace third;
  SegmentPlace second;
  ASSERT_TRUE(table_->GiveBack(1, 2, &third).ok());
  ASSERT_TRUE(table_->GiveBack(1, 1, &second).ok());
  EXPECT_FALSE(HasPlace(1, 1));
  EXPECT_FALSE(HasPlace(1, 2));
  EXPECT_TRUE(HasPlace(1, 3));
  ASSERT_TRUE(Give(3, 0).ok());
  EXPECT_EQ(PlaceOf(3, 0), 5u) << "no other is free before the flush";
  ASSERT_TRUE(table_->Flush().ok());
  table_->Free(third);
  table_->Free(second);
  ASSERT_TRUE(Give(1, 1).ok());
  EXPECT_EQ(PlaceOf(1, 1), 1u);
  ASSERT_TRUE(Give(3, 1).ok());
  EXPECT_EQ(PlaceOf(3, 1), 2u);
  EXPECT_EQ(table_->given_count(0), 6u);
  ExpectDistinct();
  const auto all = All();
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(All(), all);
}

TEST_F(ReturnedPlacesTest, TheEndOfAFileComesNearer) {
  for (uint64_t index = 0; index < 5; ++index) ASSERT_TRUE(Give(1, index).ok());
  for (const uint64_t index : {1, 3, 4}) {
    EXPECT_EQ(table_->PlaceEnd(0), 5u);
    ASSERT_NO_FATAL_FAILURE(TakeBack(1, index));
  }
  EXPECT_EQ(table_->PlaceEnd(0), 3u);
  uint64_t end = 0;
  table_->CutAtEnd(0, [&](uint64_t place_end) { end = place_end; });
  EXPECT_EQ(end, 3u);
  EXPECT_EQ(table_->given_count(0), 2u);
}

// What was given back in an earlier opening may not have reached the disk.
TEST_F(ReturnedPlacesTest, AnOpeningGivesThemAfterItsFirstFlush) {
  for (uint64_t index = 0; index < 5; ++index) ASSERT_TRUE(Give(1, index).ok());
  SegmentPlace place;
  ASSERT_TRUE(table_->GiveBack(1, 1, &place).ok());
  ASSERT_TRUE(table_->GiveBack(1, 4, &place).ok());
  ASSERT_TRUE(Load().ok());
  EXPECT_FALSE(table_->lacks_entries());
  EXPECT_FALSE(HasPlace(1, 1));
  EXPECT_EQ(table_->PlaceEnd(0), 4u);
  ASSERT_TRUE(Give(3, 0).ok());
  EXPECT_EQ(PlaceOf(3, 0), 5u);
  ASSERT_TRUE(table_->Flush().ok());
  ASSERT_TRUE(Give(3, 1).ok());
  ASSERT_TRUE(Give(3, 2).ok());
  EXPECT_EQ(PlaceOf(3, 1), 1u);
  EXPECT_EQ(PlaceOf(3, 2), 4u);
}

TEST_F(ReturnedPlacesTest, OnlyPlacesThatWereFreedHereNeedNoPreparation) {
  for (uint64_t index = 0; index < 3; ++index) ASSERT_TRUE(Give(1, index).ok());
  ASSERT_NO_FATAL_FAILURE(TakeBack(1, 1));
  std::vector<uint64_t> prepared;
  const auto prepare = [&](uint64_t number) {
    prepared.push_back(number);
    EXPECT_EQ(table_->given_count(0), 4u) << "nobody else gets it";
    return Status::Ok();
  };
  ASSERT_TRUE(GivePrepared(3, 0, prepare).ok());
  EXPECT_EQ(PlaceOf(3, 0), 1u);
  EXPECT_TRUE(prepared.empty());
  ASSERT_TRUE(GivePrepared(3, 1, prepare).ok());
  EXPECT_EQ(prepared, std::vector<uint64_t>({3})) << "of the fourth place";
  ASSERT_TRUE(GivePrepared(3, 1, prepare).ok());
  EXPECT_EQ(prepared.size(), 1u) << "it has one";
}

TEST_F(ReturnedPlacesTest, APlaceThatCannotBePreparedStaysFree) {
  ASSERT_TRUE(Give(1, 0).ok());
  const auto refuse = [](uint64_t) { return Status::Full("prepared"); };
  EXPECT_EQ(GivePrepared(1, 1, refuse).code(), Code::kFull);
  EXPECT_FALSE(HasPlace(1, 1));
  EXPECT_EQ(table_->given_count(0), 1u);
  ASSERT_TRUE(Give(3, 0).ok());
  EXPECT_EQ(PlaceOf(3, 0), 1u);
}

// A kill meanwhile leaves no entry that looks lost, though others have got places behind it.
TEST_F(ReturnedPlacesTest, APlaceThatIsBeingPreparedIsNotMissing) {
  ASSERT_TRUE(Give(1, 0).ok());
  SegmentTable found(geometry_, kSeed, paths_);
  const auto prepare = [&](uint64_t) {
    EXPECT_TRUE(Give(3, 0).ok());
    return found.Load(file_, &damaged_count_);
  };
  ASSERT_TRUE(GivePrepared(1, 1, prepare).ok());
  EXPECT_EQ(PlaceOf(3, 0), 2u);
  SegmentPlace place;
  EXPECT_TRUE(found.Find(3, 0, &place));
  EXPECT_FALSE(found.Find(1, 1, &place));
  EXPECT_FALSE(found.lacks_entries());
}

// A bucket that grows gets neighbours, and one that gets a row back does not.
TEST_F(ReturnedPlacesTest, OnePreparedPlaceIsGivenAlone) {
  for (uint64_t index = 0; index < 64; ++index) ASSERT_TRUE(Give(1, index).ok());
  const uint64_t given_count = table_->given_count(0);
  ASSERT_TRUE(GivePrepared(1, 1000, [](uint64_t) { return Status::Ok(); }).ok());
  EXPECT_EQ(table_->given_count(0), given_count + 1);
}

// A window of records that moves over the buckets leaves each with its last row. An opening bounds
// what it lists by the entries.
TEST_F(ReturnedPlacesTest, AnOpeningListsTheLastRowsOfManyBuckets) {
  constexpr uint64_t kRows = 4000;
  paths_ = {{0, 1, format::kMaxFilePlaces}};
  ASSERT_TRUE(Load().ok());
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    for (uint64_t index = 0; index < kRows; ++index) ASSERT_TRUE(Give(bucket, index).ok());
    std::vector<SegmentPlace> places(kRows - 1);
    for (uint64_t index = 0; index + 1 < kRows; ++index) {
      ASSERT_TRUE(table_->GiveBack(bucket, index, &places[index]).ok());
    }
    ASSERT_TRUE(table_->Flush().ok());
    for (const SegmentPlace& place : places) table_->Free(place);
  }
  const auto all = All();
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(damaged_count_, 0u);
  EXPECT_EQ(All(), all);
  EXPECT_LE(table_->PlaceEnd(0), 3 * kRows) << "most places were used again";
}

TEST_F(ReturnedPlacesTest, TheListOfABucketGetsShorter) {
  for (uint64_t index = 0; index < 5; ++index) ASSERT_TRUE(Give(1, index).ok());
  for (const uint64_t index : {1, 3}) ASSERT_NO_FATAL_FAILURE(TakeBack(1, index));
  EXPECT_EQ(table_->SegmentEnd(1), 5u);
  ASSERT_NO_FATAL_FAILURE(TakeBack(1, 4));
  EXPECT_EQ(table_->SegmentEnd(1), 3u);
  for (const uint64_t index : {2, 0}) ASSERT_NO_FATAL_FAILURE(TakeBack(1, index));
  EXPECT_EQ(table_->SegmentEnd(1), 0u);
}

TEST_F(ReturnedPlacesTest, AFullDiskTakesNoPlaceAway) {
  ASSERT_TRUE(Give(1, 0).ok());
  CallWatch full([](SystemCall* call) -> long {
    if (call->kind != CallKind::kPwrite) return call->Proceed();
    errno = ENOSPC;
    return -1;
  });
  SegmentPlace place;
  {
    const ScopedHook hook(&full);
    EXPECT_EQ(table_->GiveBack(1, 0, &place).code(), Code::kFull);
  }
  EXPECT_TRUE(HasPlace(1, 0));
  EXPECT_TRUE(table_->GiveBack(1, 0, &place).ok());
  EXPECT_FALSE(HasPlace(1, 0));
}

}  // namespace
}  // namespace engine_race::test

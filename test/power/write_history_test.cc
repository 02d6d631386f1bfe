// The judge of power losses: what it lets pass and what it must not.
#include "test/power/write_history.h"

#include <gtest/gtest.h>

namespace engine_race::test {
namespace {

class WriteHistoryTest : public testing::Test {
 protected:
  // Thread `thread` writes key number `number` of bucket 0, acknowledged.
  void Write(uint32_t thread, uint64_t number, uint64_t version) {
    const uint64_t key = Key(thread, number);
    history_.Acknowledge(key, history_.Begin(key, version), false);
  }
  uint64_t Key(uint32_t thread, uint64_t number) const { return names_.KeyOf(0, thread, number); }
  void Sync() { history_.MarkDurable(history_.Acknowledged()); }
  WriteHistory::Outcome Judge(const Contents& seen) {
    return history_.Judge({history_.Durable(), history_.Begun()}, seen, &next_);
  }

  const LaneNames names_{2};
  WriteHistory history_{names_};
  WriteHistory next_{names_};
};

TEST_F(WriteHistoryTest, KeysTellTheirLanes) {
  EXPECT_EQ(names_.LaneOf(names_.KeyOf(1, 3, 77)), 7);
  EXPECT_EQ(names_.LaneOf(names_.KeyOf(0, 0, 77)), 0);
  EXPECT_EQ((LaneNames{1}.LaneOf(LaneNames{1}.KeyOf(0, 2, 5))), 2);
  EXPECT_EQ(names_.KeyOf(1, 0, 0), uint64_t{1} << 63);
}

TEST_F(WriteHistoryTest, AnyPrefixWillDoWhenNothingIsSynced) {
  Write(0, 1, 10);
  Write(0, 2, 11);
  EXPECT_TRUE(Judge({}).good);
  EXPECT_TRUE(Judge({{Key(0, 1), 10}}).good);
  EXPECT_TRUE(Judge({{Key(0, 1), 10}, {Key(0, 2), 11}}).good);
}

TEST_F(WriteHistoryTest, AHoleAPhantomAndAnOldVersionAreRefused) {
  Write(0, 1, 10);
  Write(0, 2, 11);
  Write(0, 1, 12);
  EXPECT_FALSE(Judge({{Key(0, 2), 11}}).good);
  EXPECT_FALSE(Judge({{Key(0, 1), 12}}).good);
  EXPECT_FALSE(Judge({{Key(0, 1), 10}, {Key(0, 2), 99}}).good);
  EXPECT_FALSE(Judge({{Key(0, 1), 10}, {Key(0, 3), 11}}).good);
  EXPECT_TRUE(Judge({{Key(0, 1), 12}, {Key(0, 2), 11}}).good);
}

TEST_F(WriteHistoryTest, WhatWasSyncedMustBeThere) {
  Write(0, 1, 10);
  Sync();
  Write(0, 2, 11);
  EXPECT_FALSE(Judge({}).good);
  EXPECT_TRUE(Judge({{Key(0, 1), 10}}).good);
}

TEST_F(WriteHistoryTest, DurableAcknowledgementsBindLikeASync) {
  const size_t number = history_.Begin(Key(0, 1), 10);
  EXPECT_TRUE(Judge({}).good);
  history_.Acknowledge(Key(0, 1), number, true);
  EXPECT_FALSE(Judge({}).good);
}

TEST_F(WriteHistoryTest, TheOrderOfABucketBindsItsThreads) {
  Write(0, 1, 10);
  Write(1, 1, 11);
  EXPECT_FALSE(Judge({{Key(1, 1), 11}}).good);
  EXPECT_TRUE(Judge({{Key(0, 1), 10}}).good);
}

TEST_F(WriteHistoryTest, WritesUnderWayAtOnceMayComeInEitherOrder) {
  const size_t first = history_.Begin(Key(0, 1), 10);
  const size_t second = history_.Begin(Key(1, 1), 11);
  history_.Acknowledge(Key(0, 1), first, false);
  history_.Acknowledge(Key(1, 1), second, false);
  EXPECT_TRUE(Judge({{Key(1, 1), 11}}).good);
  EXPECT_TRUE(Judge({{Key(0, 1), 10}}).good);
}

TEST_F(WriteHistoryTest, BucketsDoNotBindEachOther) {
  Write(0, 1, 10);
  const uint64_t other = names_.KeyOf(1, 0, 1);
  history_.Acknowledge(other, history_.Begin(other, 11), false);
  EXPECT_TRUE(Judge({{other, 11}}).good);
}

TEST_F(WriteHistoryTest, WhatWasCutOffMustNotComeBack) {
  Write(0, 1, 10);
  Write(0, 2, 11);
  ASSERT_TRUE(Judge({{Key(0, 1), 10}}).good);
  const size_t number = next_.Begin(Key(0, 3), 12);
  const LossBounds bounds{next_.Durable(), next_.Begun()};
  next_.Acknowledge(Key(0, 3), number, false);
  WriteHistory last(names_);
  EXPECT_TRUE(next_.Judge(bounds, {{Key(0, 1), 10}}, &last).good);
  EXPECT_TRUE(next_.Judge(bounds, {{Key(0, 1), 10}, {Key(0, 3), 12}}, &last).good);
  EXPECT_FALSE(next_.Judge(bounds, {{Key(0, 1), 10}, {Key(0, 2), 11}}, &last).good);
  EXPECT_FALSE(next_.Judge(bounds, {}, &last).good);
}

TEST_F(WriteHistoryTest, DeletionsThatLeaveNoTraceWidenTheRecordCount) {
  Write(0, 1, 10);
  Write(0, 5, 0);
  const WriteHistory::Outcome outcome = Judge({{Key(0, 1), 10}});
  EXPECT_TRUE(outcome.good);
  EXPECT_EQ(outcome.least_records, 1);
  EXPECT_EQ(outcome.most_records, 2);
  EXPECT_EQ(outcome.lost_writes, 0);
  EXPECT_EQ(next_.RecordCount(0), 2);
  EXPECT_EQ(Judge({}).lost_writes, 2);
}

}  // namespace
}  // namespace engine_race::test

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

using test::OpenLog;
using test::ReadSlot;
using test::SetWord;
using test::TinyLogOptions;
using test::ValueOf;

constexpr uint32_t kBucket = 0;

// A store whose bucket 0 holds `count` records and whose process then ended.
uint64_t MakeStore(const std::string& dir, uint64_t count) {
  const auto log = OpenLog(TinyLogOptions(), dir);
  for (uint64_t i = 0; i < count; ++i) {
    EXPECT_TRUE(log->Append(i, ValueOf(i, 1).data()).ok());
  }
  return log->store_id();
}

void ExpectRecords(BucketLog* log, uint64_t count) {
  ASSERT_EQ(log->RecordCount(kBucket), count);
  const std::vector<KeyRecord> records = test::RecordsOf(log, kBucket);
  for (uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(ReadSlot(*log, kBucket, i), ValueOf(i, 1)) << i;
    EXPECT_EQ(records[i].key, i);
  }
}

// Zeroes a place in a log file: what a group's write that never happened leaves there.
void ZeroLog(const std::string& path, uint64_t offset, uint64_t size) {
  const std::string zeros(size, '\0');
  test::Overwrite(path, zeros.data(), zeros.size(), offset);
}

// Killed after the group was full and before its write: the log has nothing of it.
TEST(RecoveryTest, FullGroupsNotInTheLogAreWrittenAgain) {
  test::TempDir dir;
  const uint64_t id = MakeStore(dir.path(), 8);
  SetWord(dir.path(), id, kBucket, format::WordKind::kLoggedValues, 4);
  ZeroLog(dir.Join("value_00"), 4 * kValueBytes, 4 * kValueBytes);
  for (int round = 0; round < 3; ++round) {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    EXPECT_EQ(log->LoggedValueWatermark(kBucket), 8u);
    ExpectRecords(log.get(), 8);
  }
}

TEST(RecoveryTest, FullKeyGroupsNotInTheLogAreWrittenAgain) {
  test::TempDir dir;
  const uint64_t id = MakeStore(dir.path(), 512);
  SetWord(dir.path(), id, kBucket, format::WordKind::kLoggedKeys, 256);
  const uint64_t group_bytes = TinyLogOptions().key_group_bytes;
  ZeroLog(dir.Join("key_00"), group_bytes, group_bytes);
  for (int round = 0; round < 3; ++round) {
    ExpectRecords(OpenLog(TinyLogOptions(), dir.path()).get(), 512);
  }
}

// Killed after the write and before the mark: writing again changes nothing.
TEST(RecoveryTest, FullGroupsAlreadyInTheLogStayAsTheyAre) {
  test::TempDir dir;
  const uint64_t id = MakeStore(dir.path(), 512);
  SetWord(dir.path(), id, kBucket, format::WordKind::kLoggedValues, 508);
  SetWord(dir.path(), id, kBucket, format::WordKind::kLoggedKeys, 256);
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  EXPECT_EQ(log->LoggedValueWatermark(kBucket), 512u);
  ExpectRecords(log.get(), 512);
}

// Killed between staging a record and counting it: the bytes are there, the record is not.
TEST(RecoveryTest, UncountedRecordsAreNotThere) {
  test::TempDir dir;
  const uint64_t id = MakeStore(dir.path(), 7);
  SetWord(dir.path(), id, kBucket, format::WordKind::kRecords, 6);
  {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    ExpectRecords(log.get(), 6);
    ASSERT_TRUE(log->Append(6, ValueOf(6, 1).data()).ok());
    ExpectRecords(log.get(), 7);
  }
  ExpectRecords(OpenLog(TinyLogOptions(), dir.path()).get(), 7);
}

// Its place looks free, and what lies there may be brought back by hand.
TEST(RecoveryTest, ThePlaceOfALostSegmentIsNotGivenAway) {
  test::TempDir dir;
  MakeStore(dir.path(), 3 * test::kTinyRowRecords);
  const std::string table = dir.Join(format::kSegmentTableName);
  const format::SegmentEntry none{};
  test::Overwrite(table, &none, sizeof(none), sizeof(none));
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  // Places that an opening finds free may be given from its first flush on.
  ASSERT_TRUE(log->Sync().ok());
  // Of bucket 1, which lies in the same file.
  constexpr uint64_t kKey = uint64_t{1} << 62;
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(log->Append(kKey + i, ValueOf(kKey + i, 1).data()).ok());
  }
  EXPECT_GE(log->slots().LocateValues(1, 0).offset, 3 * log->geometry().segment_value_bytes());
}

TEST(RecoveryTest, PartialGroupIsContinuedNotOverwritten) {
  test::TempDir dir;
  MakeStore(dir.path(), 6);
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  for (uint64_t i = 6; i < 20; ++i) ASSERT_TRUE(log->Append(i, ValueOf(i, 1).data()).ok());
  ExpectRecords(log.get(), 20);
}

TEST(RecoveryTest, ABucketWithDamagedCountsIsRefusedAlone) {
  const struct {
    format::WordKind kind;
    uint64_t count;
    bool good_check;
  } cases[] = {
      {format::WordKind::kRecords, 11, false},
      {format::WordKind::kLoggedValues, 4, false},
      {format::WordKind::kLoggedKeys, 0, false},
      {format::WordKind::kRecords, 41, true},  // more staged than the places hold
      {format::WordKind::kRecords, 17, true},  // a group that never took a place
      {format::WordKind::kValuePlaces, 0xf, false},
      {format::WordKind::kValuePlaces, 0xf00, true},  // a place that is not there
      {format::WordKind::kRecords, 4097, true},       // above the capacity
      {format::WordKind::kLoggedValues, 6, true},     // not a whole group
      {format::WordKind::kLoggedValues, 12, true},    // a watermark past the count
  };
  for (const auto& c : cases) {
    test::TempDir dir;
    const uint64_t id = MakeStore(dir.path(), 11);
    SetWord(dir.path(), c.good_check ? id : id + 1, kBucket, c.kind, c.count);
    int messages = 0;
    Options options = TinyLogOptions();
    options.log = [&messages](LogLevel, std::string_view) { ++messages; };
    const auto log = OpenLog(options, dir.path());
    EXPECT_TRUE(log->BucketDamaged(kBucket)) << c.count;
    EXPECT_EQ(messages, 1);
    EXPECT_EQ(log->Append(1, ValueOf(1, 1).data()).code(), Code::kCorruption);
    test::NullListener listener;
    BucketCut cut;
    EXPECT_EQ(log->reader().CutBucket(kBucket, /*first_sequence=*/0, &listener, &cut).code(),
              Code::kCorruption);
    EXPECT_TRUE(log->Append(uint64_t{1} << 62, ValueOf(1, 1).data()).ok());
  }
}

}  // namespace
}  // namespace engine_race

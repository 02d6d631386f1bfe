#include "engine_race/log/bucket_log.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

using test::OpenLog;
using test::ReadSlot;
using test::TinyLogOptions;
using test::ValueOf;

// A key of the tiny geometry's bucket `bucket`.
uint64_t KeyIn(uint32_t bucket, uint64_t n) { return (uint64_t{bucket} << 62) | n; }

TEST(BucketLogTest, StagedAndLoggedRecordsReadBack) {
  test::TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  // Eleven records: two full groups of four in the log, three staged.
  for (uint64_t i = 0; i < 11; ++i) {
    ASSERT_TRUE(log->Append(KeyIn(2, i), ValueOf(i, 5).data()).ok());
    for (uint64_t j = 0; j <= i; ++j) ASSERT_EQ(ReadSlot(*log, 2, j), ValueOf(j, 5)) << j;
  }
  EXPECT_EQ(log->RecordCount(2), 11u);
  EXPECT_EQ(log->LoggedValueWatermark(2), 8u);
  EXPECT_EQ(log->RecordCount(1), 0u);
}

TEST(BucketLogTest, EntriesCarrySequenceSumAndTombstone) {
  test::TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  for (uint64_t i = 0; i < 600; ++i) {
    const std::string value = ValueOf(i, 1);
    ASSERT_TRUE(log->Append(KeyIn(1, i % 7), i % 5 == 4 ? nullptr : value.data()).ok());
  }
  const std::vector<KeyRecord> records = test::RecordsOf(log.get(), 1);
  ASSERT_EQ(records.size(), 600u);
  for (uint64_t i = 0; i < 600; ++i) {
    EXPECT_EQ(records[i].key, KeyIn(1, i % 7));
    EXPECT_EQ(records[i].tombstone, i % 5 == 4);
    EXPECT_EQ(records[i].value_hash, i % 5 == 4 ? 0 : HashValue(ValueOf(i, 1).data(), kValueBytes));
    if (i > 0) {
      EXPECT_GT(records[i].sequence, records[i - 1].sequence);
    }
  }
}

TEST(BucketLogTest, ReopenedStoreGoesOnWhereItWas) {
  test::TempDir dir;
  uint64_t written = 0;
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const auto log = OpenLog(TinyLogOptions(), dir.path());
    ASSERT_EQ(log->RecordCount(3), written);
    for (uint64_t j = 0; j < written; ++j) ASSERT_EQ(ReadSlot(*log, 3, j), ValueOf(j, 9)) << j;
    for (uint64_t more = random() % 23; more > 0; --more, ++written) {
      ASSERT_TRUE(log->Append(KeyIn(3, written), ValueOf(written, 9).data()).ok());
    }
  }
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  const std::vector<KeyRecord> records = test::RecordsOf(log.get(), 3);
  ASSERT_EQ(records.size(), written);
  for (uint64_t j = 0; j < written; ++j) EXPECT_EQ(records[j].key, KeyIn(3, j));
}

TEST(BucketLogTest, AFullBucketIsFullAndTheOthersAreNot) {
  test::TempDir dir;
  Options options = TinyLogOptions();
  options.bucket_capacity_records = 256;
  {
    const auto log = OpenLog(options, dir.path());
    const std::string value = ValueOf(1, 1);
    for (int i = 0; i < 256; ++i) ASSERT_TRUE(log->Append(KeyIn(0, i), value.data()).ok());
    EXPECT_EQ(log->Append(KeyIn(0, 256), value.data()).code(), Code::kFull);
    EXPECT_EQ(log->Append(KeyIn(0, 0), nullptr).code(), Code::kFull);
    EXPECT_TRUE(log->Append(KeyIn(1, 0), value.data()).ok());
  }
  const auto log = OpenLog(options, dir.path());
  EXPECT_EQ(log->RecordCount(0), 256u);
  EXPECT_EQ(log->Append(KeyIn(0, 256), nullptr).code(), Code::kFull);
  EXPECT_EQ(ReadSlot(*log, 0, 255), ValueOf(1, 1));
}

TEST(BucketLogTest, ListenerHearsOfEveryRecordAfterTheCut) {
  test::TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  ASSERT_TRUE(log->Append(KeyIn(0, 1), ValueOf(1, 1).data()).ok());
  test::NullListener listener;
  BucketCut cut;
  ASSERT_TRUE(log->reader().CutBucket(0, /*first_sequence=*/0, &listener, &cut).ok());
  EXPECT_EQ(cut.record_count, 1u);
  ASSERT_EQ(cut.staged_keys.size(), 1u);
  ASSERT_TRUE(log->Append(KeyIn(0, 2), nullptr).ok());
  ASSERT_TRUE(log->Append(KeyIn(1, 2), nullptr).ok());
  EXPECT_EQ(listener.appends, 1);
  EXPECT_EQ(listener.last.slot, 1u);
  EXPECT_TRUE(listener.last.tombstone);
  log->reader().DetachListener(0);
  ASSERT_TRUE(log->Append(KeyIn(0, 3), nullptr).ok());
  EXPECT_EQ(listener.appends, 1);
}

class RefusingListener : public test::NullListener {
 public:
  Status Prepare(uint32_t) override { return Status::OutOfMemory("test"); }
};

TEST(BucketLogTest, ARefusedWriteChangesNothing) {
  test::TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  RefusingListener listener;
  BucketCut cut;
  ASSERT_TRUE(log->reader().CutBucket(0, /*first_sequence=*/0, &listener, &cut).ok());
  EXPECT_EQ(log->Append(KeyIn(0, 1), ValueOf(1, 1).data()).code(), Code::kOutOfMemory);
  EXPECT_EQ(log->RecordCount(0), 0u);
  EXPECT_EQ(listener.appends, 0);
}

// Many writers in one bucket of tiny groups: halves turn over all the time, while readers copy
// from the very halves that are about to be used again.
TEST(BucketLogTest, WritersAndReadersOfStagedRecords) {
  test::TempDir dir;
  Options options = TinyLogOptions();
  options.bucket_capacity_records = 65536;
  const auto log = OpenLog(options, dir.path());
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < test::Sized(5000, 500); ++i) {
        const uint64_t key = KeyIn(1, t * 100000 + i);
        if (!log->Append(key, ValueOf(key, 1).data()).ok()) ++bad;
      }
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        const uint64_t count = log->RecordCount(1);
        for (uint64_t back = 1; back <= 12 && back <= count; ++back) {
          const std::string value = ReadSlot(*log, 1, count - back);
          uint64_t key = 0;
          uint64_t version = 0;
          std::memcpy(&key, value.data(), std::min<size_t>(8, value.size()));
          if (!test::ParseValue(key, value, &version)) ++bad;
        }
      }
    });
  }
  for (int t = 0; t < 6; ++t) threads[t].join();
  stop = true;
  for (size_t t = 6; t < threads.size(); ++t) threads[t].join();
  EXPECT_EQ(bad.load(), 0);
  const std::vector<KeyRecord> records = test::RecordsOf(log.get(), 1);
  ASSERT_EQ(records.size(), 6 * test::Sized(5000, 500));
  std::map<uint64_t, int> seen;
  for (const KeyRecord& record : records) {
    ++seen[record.key];
    ASSERT_EQ(ReadSlot(*log, 1, record.slot), ValueOf(record.key, 1));
  }
  EXPECT_EQ(seen.size(), records.size());
}

}  // namespace
}  // namespace engine_race

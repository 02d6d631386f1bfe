// The whole room over a real log: builds of small buckets and giants, with damage, failures and
// writers beside them.
#include "engine_race/index/index.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/index/bucket_builder.h"
#include "engine_race/index/build.h"
#include "engine_race/index/giant_build.h"
#include "harness/load/fill_keys.h"
#include "test/index/index_test_util.h"
#include "test/log/row_test_util.h"
#include "test/log_lines.h"
#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::ExpectFinds;
using test::ExpectSameEntries;
using test::MakeRecords;
using test::Model;
using test::Order;
using test::Shape;
using test::TempDir;

constexpr uint64_t kSeed = 11;

Options SmallOptions() {
  Options options;
  options.bucket_count = 16;
  options.file_count = 4;
  options.bucket_capacity_records = 1 << 17;
  options.build_thread_count = 3;
  return options;
}

// Of OneBucket().
constexpr uint32_t kRowRecords = 256;

// One bucket, so that records of any key can be put into it in any order.
Options OneBucket() {
  Options options = SmallOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  options.key_group_bytes = kRowRecords * kKeyEntryBytes;
  return options;
}

// Everything tiny: thousands of records are a giant of many partitions and rounds.
BuildLimits GiantLimits() {
  BuildLimits limits;
  limits.giant_records = 100;
  limits.split_keys = 700;
  limits.piece_bytes = 4096;
  limits.partition_records = 500;
  limits.giant_memory_bytes = 64 << 10;
  return limits;
}

std::unique_ptr<BucketLog> OpenLog(const Options& options, const std::string& dir) {
  std::unique_ptr<BucketLog> log;
  const Status status = BucketLog::Open(options, dir, &log);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return log;
}

// An index whose limits a test chooses.
class TestIndex : public AppendListener {
 public:
  TestIndex(BucketLog* log, const Options& options, const BuildLimits& limits)
      : options_(options),
        buckets_(std::make_unique<BucketIndex[]>(log->geometry().bucket_count)),
        context_(log, this, options_, limits, options.build_thread_count,
                 {buckets_.get(), log->geometry().bucket_count}, &unread_) {}

  Status Build() { return BuildAllBuckets(&context_); }
  Status BuildAgain(uint32_t bucket) {
    ENGINE_RACE_RETURN_IF_ERROR(BuildBucket(&context_, bucket, [&] {
      if (context_.IsGiant(bucket)) return BuildGiant(&context_, bucket);
      BucketBuilder builder(&context_, context_.log().RecordCount(bucket));
      ENGINE_RACE_RETURN_IF_ERROR(builder.Init());
      return builder.Build(bucket);
    }));
    buckets_[bucket].Admit();
    return Status::Ok();
  }
  BucketIndex& bucket(uint32_t index) { return buckets_[index]; }

  Status Prepare(uint32_t bucket) override { return buckets_[bucket].Prepare(); }
  void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept override {
    buckets_[bucket].OnAppend(record);
  }

 private:
  const Options options_;
  std::unique_ptr<BucketIndex[]> buckets_;
  UnreadBuckets unread_;
  BuildContext context_;
};

// Makes a store of one bucket that holds `records`, with rows if those do not lie in the slots of
// their numbers. Sets the hashes in `records` to those of the store.
void WriteRecords(const std::string& dir, std::vector<KeyRecord>* records) {
  Region zeros;
  ASSERT_TRUE(Region::Allocate(kValueBytes, false, &zeros).ok());
  for (KeyRecord& record : *records) {
    record.value_hash = record.tombstone ? 0 : HashValue(zeros.data(), zeros.size());
  }
  std::vector<uint32_t> slots(records->size());
  for (const KeyRecord& record : *records) slots[record.sequence] = record.slot;
  const Status status = harness::WriteKeyLogs(
      OneBucket(), dir, {records->size()},
      [&](uint32_t, uint32_t sequence) { return (*records)[slots[sequence]]; });
  ASSERT_TRUE(status.ok()) << status.ToString();
  if (std::is_sorted(slots.begin(), slots.end())) return;
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < slots.size(); i += kRowRecords) rows.push_back(slots[i] / kRowRecords);
  test::ScatterRuns(OneBucket(), dir, 0, rows);
}

void OverwriteEntry(const std::string& dir, uint64_t slot, format::KeyEntry entry) {
  UniqueFd fd;
  ASSERT_TRUE(
      sys::OpenAt(AT_FDCWD, dir + "/" + format::kKeyFilePrefix + "00", O_WRONLY, 0, &fd).ok());
  ASSERT_TRUE(sys::PwriteFull(fd.get(), &entry, sizeof(entry), slot * sizeof(entry)).ok());
}

TEST(IndexTest, BuildsFromFilledLogsAndStagedEntries) {
  TempDir dir(test::FastParent());
  const Options options = SmallOptions();
  const uint64_t key_count = 50000;
  ASSERT_TRUE(harness::FillKeyLogs(options, dir.path(), key_count, kSeed).ok());
  const std::unique_ptr<BucketLog> log = OpenLog(options, dir.path());
  std::unique_ptr<Index> index;
  const Status status = Index::Build(log.get(), options, &index);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::vector<uint64_t> counts = harness::FilledCounts(16, key_count, kSeed);
  uint64_t total = 0;
  for (uint32_t bucket = 0; bucket < 16; ++bucket) {
    total += counts[bucket];
    for (uint32_t slot = 0; slot < counts[bucket]; ++slot) {
      const uint64_t key = harness::FilledKey(log->geometry(), bucket, slot, kSeed);
      ValueRef ref;
      ASSERT_TRUE(index->Find(key, &ref).ok());
      ASSERT_EQ(ref.slot(), slot);
      ASSERT_EQ(index->Find(key ^ 1, &ref).code(), Code::kNotFound);
    }
    EXPECT_EQ(index->EstimateCount(bucket, 0, ~uint64_t{0}), counts[bucket]);
  }
  EXPECT_EQ(total, key_count);
  EXPECT_LT(index->memory_bytes(), key_count * 20);
}

TEST(IndexTest, EmptyStoreHasAnIndex) {
  TempDir dir(test::FastParent());
  const std::unique_ptr<BucketLog> log = OpenLog(SmallOptions(), dir.path());
  std::unique_ptr<Index> index;
  ASSERT_TRUE(Index::Build(log.get(), SmallOptions(), &index).ok());
  ValueRef ref;
  EXPECT_EQ(index->Find(0, &ref).code(), Code::kNotFound);
  EXPECT_EQ(index->Find(~uint64_t{0}, &ref).code(), Code::kNotFound);
  const std::string value = test::ValueOf(7, 1);
  ASSERT_TRUE(log->Append(7, value.data()).ok());
  ASSERT_TRUE(index->Find(7, &ref).ok());
  EXPECT_EQ(ref.value_checksum(), ChecksumOfHash(HashValue(value.data(), value.size())));
  ASSERT_TRUE(log->Append(7, nullptr).ok());
  EXPECT_EQ(index->Find(7, &ref).code(), Code::kNotFound);
}

TEST(IndexTest, GiantsOfEveryShapeAndOrder) {
  uint64_t number = 0;
  for (const Shape shape : test::AllShapes()) {
    for (const Order order : {Order::kAlong, Order::kReversed, Order::kShuffled}) {
      if (!test::IsInPart(number++, test::Sized(1, 9))) continue;
      SCOPED_TRACE(test::NameOf(shape) + ", order " + std::to_string(static_cast<int>(order)));
      TempDir dir(test::FastParent());
      std::vector<KeyRecord> records = MakeRecords(shape, 256 * 40, order, kSeed, kRowRecords);
      WriteRecords(dir.path(), &records);
      const std::unique_ptr<BucketLog> log = OpenLog(OneBucket(), dir.path());
      TestIndex index(log.get(), OneBucket(), GiantLimits());
      const Status status = index.Build();
      ASSERT_TRUE(status.ok()) << status.ToString();
      const Model model(records);
      ExpectFinds(index.bucket(0), model);
      std::vector<IndexEntry> entries;
      bool complete = false;
      ASSERT_EQ(index.bucket(0).Collect(0, ~uint64_t{0}, ~size_t{0}, &entries, &complete),
                Code::kOk);
      ExpectSameEntries(entries, model.Entries());
    }
  }
}

// Records keep coming while a giant and small buckets are built, and afterwards.
TEST(IndexTest, WritersDuringAndAfterTheBuild) {
  for (const uint64_t giant_records : {uint64_t{100}, uint64_t{1} << 20}) {
    TempDir dir(test::FastParent());
    Options options = SmallOptions();
    options.bucket_count = 4;
    const uint64_t filled = 20000;
    ASSERT_TRUE(harness::FillKeyLogs(options, dir.path(), filled, kSeed).ok());
    const std::unique_ptr<BucketLog> log = OpenLog(options, dir.path());
    BuildLimits limits = GiantLimits();
    limits.giant_records = giant_records;
    TestIndex index(log.get(), options, limits);
    const uint64_t writes = test::Sized(3000, 600);
    std::vector<std::thread> writers;
    for (uint64_t writer = 0; writer < 2; ++writer) {
      writers.emplace_back([&, writer] {
        std::mt19937_64 random(writer);
        for (uint64_t i = 0; i < writes; ++i) {
          const uint64_t key = random();
          const std::string value = test::ValueOf(key, i);
          ASSERT_TRUE(log->Append(key, value.data()).ok());
        }
      });
    }
    const Status status = index.Build();
    for (std::thread& writer : writers) writer.join();
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto find = [&](uint64_t key) {
      ValueRef ref;
      return index.bucket(log->geometry().BucketOf(key)).Find(key, &ref);
    };
    for (uint64_t writer = 0; writer < 2; ++writer) {
      std::mt19937_64 random(writer);
      for (uint64_t i = 0; i < writes; ++i) ASSERT_EQ(find(random()), Code::kOk) << i;
    }
    const std::vector<uint64_t> counts = harness::FilledCounts(4, filled, kSeed);
    for (uint32_t bucket = 0; bucket < 4; ++bucket) {
      for (uint64_t slot = 0; slot < counts[bucket]; ++slot) {
        ASSERT_EQ(find(harness::FilledKey(log->geometry(), bucket, slot, kSeed)), Code::kOk);
      }
    }
  }
}

TEST(IndexTest, DamagedEntriesAreReportedAndNeverBecomeNotFound) {
  for (const uint64_t giant_records : {uint64_t{100}, uint64_t{1} << 20}) {
    TempDir dir(test::FastParent());
    std::vector<KeyRecord> records =
        MakeRecords(Shape::kUniform, 256 * 20, Order::kShuffled, kSeed, kRowRecords);
    WriteRecords(dir.path(), &records);
    uint64_t lost = 0;
    for (uint32_t slot = 1000; slot < 1020; ++slot) {
      OverwriteEntry(dir.path(), slot, {records[slot].key, 0x123456789, 0, 0});
      lost = std::max(lost, records[slot].sequence);
    }
    const std::unique_ptr<BucketLog> log = OpenLog(OneBucket(), dir.path());
    test::LogLines capture;
    Options options = OneBucket();
    options.log = capture.Callback();
    BuildLimits limits = GiantLimits();
    limits.giant_records = giant_records;
    TestIndex index(log.get(), options, limits);
    ASSERT_TRUE(index.Build().ok());
    for (const KeyRecord& record : records) {
      ValueRef ref;
      EXPECT_EQ(index.bucket(0).Find(record.key, &ref),
                record.sequence > lost ? Code::kOk : Code::kCorruption);
    }
    ValueRef ref;
    EXPECT_EQ(index.bucket(0).Find(12345, &ref), Code::kCorruption);
    const std::string text = capture.text();
    EXPECT_NE(text.find("key_00, bucket 0, slot 1000"), std::string::npos) << text;
    EXPECT_NE(text.find("20 damaged key entries"), std::string::npos) << text;
    EXPECT_EQ(text.find("slot 1016"), std::string::npos) << "too many messages";
  }
}

TEST(IndexTest, KeyLogThatEndsEarlyIsDamage) {
  for (const uint64_t giant_records : {uint64_t{100}, uint64_t{1} << 20}) {
    TempDir dir(test::FastParent());
    std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 256 * 20, Order::kAlong);
    WriteRecords(dir.path(), &records);
    const std::unique_ptr<BucketLog> log = OpenLog(OneBucket(), dir.path());
    ASSERT_TRUE(log->slots().LocateKeys(0, 0).file->Truncate(4096 * 10).ok());
    BuildLimits limits = GiantLimits();
    limits.giant_records = giant_records;
    TestIndex index(log.get(), OneBucket(), limits);
    ASSERT_TRUE(index.Build().ok());
    ValueRef ref;
    EXPECT_EQ(index.bucket(0).Find(records[5].key, &ref), Code::kCorruption);
    EXPECT_EQ(index.bucket(0).Find(records[256 * 20 - 1].key, &ref), Code::kCorruption);
  }
}

// A directory in place of a key file: every read of it fails.
TEST(IndexTest, BucketsThatCannotBeReadAreLeftOutAndReadLater) {
  for (const uint64_t giant_records : {uint64_t{100}, uint64_t{1} << 20}) {
    TempDir dir(test::FastParent());
    Options options = SmallOptions();
    options.io_backend = IoBackend::kPsync;
    ASSERT_TRUE(harness::FillKeyLogs(options, dir.path(), 20000, kSeed).ok());
    const std::unique_ptr<BucketLog> log = OpenLog(options, dir.path());
    const int key_fd = log->slots().LocateKeys(9, 0).file->fd();
    const auto is_broken = [&](uint32_t bucket) {
      return log->slots().LocateKeys(bucket, 0).file->fd() == key_fd;
    };
    const UniqueFd saved(::dup(key_fd));
    const UniqueFd directory(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    BuildLimits limits = GiantLimits();
    limits.giant_records = giant_records;
    TestIndex index(log.get(), options, limits);
    ASSERT_GE(::dup2(directory.get(), key_fd), 0);
    const Status built = index.Build();
    ASSERT_TRUE(built.ok()) << built.ToString();
    const std::string value = test::ValueOf(3, 1);
    ValueRef ref;
    for (uint32_t bucket = 0; bucket < 16; ++bucket) {
      ASSERT_TRUE(log->Append(log->geometry().FirstKeyOf(bucket) + 3, value.data()).ok());
      const uint64_t key = harness::FilledKey(log->geometry(), bucket, 0, kSeed);
      EXPECT_EQ(index.bucket(bucket).Find(key, &ref),
                is_broken(bucket) ? Code::kIOError : Code::kOk);
    }
    const Status again = index.BuildAgain(9);
    EXPECT_EQ(again.code(), Code::kIOError);
    EXPECT_NE(again.message().find("bucket 9"), std::string::npos) << again.ToString();
    EXPECT_NE(again.message().find(log->slots().LocateKeys(9, 0).file->name()), std::string::npos);
    ASSERT_GE(::dup2(saved.get(), key_fd), 0);
    for (uint32_t bucket = 0; bucket < 16; ++bucket) {
      if (is_broken(bucket)) {
        ASSERT_TRUE(index.BuildAgain(bucket).ok());
      }
      EXPECT_EQ(index.bucket(bucket).Find(log->geometry().FirstKeyOf(bucket) + 3, &ref), Code::kOk);
      const uint64_t key = harness::FilledKey(log->geometry(), bucket, 0, kSeed);
      EXPECT_EQ(index.bucket(bucket).Find(key, &ref), Code::kOk);
    }
  }
}

}  // namespace
}  // namespace engine_race

// What the log does with a raw device when flushes fail and when the power goes. A restart of the
// machine is played by changing the boot id in the counts.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine_race/log/segment_format.h"
#include "test/faults/system_calls.h"
#include "test/log/batch_test_util.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/loop_device.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Sixteen segments.
constexpr uint64_t kDeviceBytes = 17 * kMiB;

// Follows writes and flushes of the device and of the table of segments.
class FlushWatch : public SystemCallHook {
 public:
  explicit FlushWatch(std::string device) : device_(std::move(device)) {}

  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPwrite && call->kind != CallKind::kFdatasync) {
      return call->Proceed();
    }
    const std::string path = PathOf(*call);
    const bool table = path.ends_with(format::kSegmentTableName);
    const std::lock_guard lock(mutex_);
    if (call->kind == CallKind::kFdatasync) {
      if (table && fail_table_flushes) {
        errno = EIO;
        return -1;
      }
      if (table) ++table_flush_count;
      if (table) table_dirty_ = false;
      if (path == device_) device_dirty_ = false;
      // The counts are flushed last, with the marks of what is synced in them.
      if (path.ends_with(format::kStagingCountsName)) {
        ++counts_flush_count;
        if (table_dirty_ || device_dirty_) ++early_flush_count;
      }
      return call->Proceed();
    }
    if (table) {
      ++entry_write_count;
      table_dirty_ = true;
    }
    if (path == device_) device_dirty_ = true;
    return call->Proceed();
  }

  bool fail_table_flushes = false;
  int early_flush_count = 0;  // of the counts, before table and device
  int entry_write_count = 0;
  int table_flush_count = 0;
  int counts_flush_count = 0;

 private:
  const std::string device_;
  std::mutex mutex_;
  bool table_dirty_ = false;
  bool device_dirty_ = false;
};

class DeviceLogTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_.valid()) GTEST_SKIP() << "no loop devices here: " << device_.why();
    options_ = TinyLogOptions();
    options_.paths = {device_.path()};
    Open();
  }

  void Open() {
    log_.reset();
    log_ = OpenLog(options_, Dir());
  }
  // Keys of bucket 0.
  void Append(uint64_t begin, uint64_t end) {
    for (uint64_t key = begin; key < end; ++key) {
      const Status status = log_->Append(key, ValueOf(key, 1).data());
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
  // The bucket holds a prefix of what was written; how long it is.
  uint64_t PrefixLength() {
    const std::vector<KeyRecord> records = RecordsOf(log_.get(), 0);
    for (uint64_t slot = 0; slot < records.size(); ++slot) {
      EXPECT_EQ(records[slot].key, slot);
      EXPECT_EQ(ReadSlot(*log_, 0, slot), ValueOf(slot, 1)) << slot;
    }
    return records.size();
  }
  // The machine restarts: of the table, entries [begin, end) have not reached the disk, and nothing
  // of staging has.
  void LosePower(uint64_t begin, uint64_t end) {
    const uint64_t store_id = log_->store_id();
    log_.reset();
    const std::string zeros((end - begin) * sizeof(format::SegmentEntry), '\0');
    Overwrite(dir_.Join(std::string("store/") + format::kSegmentTableName), zeros.data(),
              zeros.size(), begin * sizeof(format::SegmentEntry));
    LoseStaging(Dir());
    Restart(Dir(), store_id, options_.bucket_count);
  }

  std::string Dir() const { return dir_.Join("store"); }

  TempDir dir_{FastParent()};
  LoopDevice device_{kDeviceBytes};
  Options options_;
  std::unique_ptr<BucketLog> log_;
};

TEST_F(DeviceLogTest, DeviceAndTableAreFlushedBeforeTheCounts) {
  FlushWatch watch(device_.path());
  const ScopedHook hook(&watch);
  for (uint64_t round = 0; round < 4; ++round) {
    Append(round * 300, (round + 1) * 300);
    ASSERT_TRUE(log_->Sync().ok());
  }
  EXPECT_EQ(watch.early_flush_count, 0);
  EXPECT_EQ(watch.counts_flush_count, 4);
  EXPECT_EQ(watch.entry_write_count, 5) << "1200 values take five segments";
  EXPECT_EQ(watch.table_flush_count, 4);
  // No new segment, no flush of the table.
  Append(1200, 1210);
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_EQ(watch.table_flush_count, 4);
}

TEST_F(DeviceLogTest, ATableThatCannotBeFlushedFailsTheSync) {
  Append(0, 600);
  {
    FlushWatch watch(device_.path());
    const ScopedHook hook(&watch);
    watch.fail_table_flushes = true;
    EXPECT_EQ(log_->Sync().code(), Code::kIOError);
    // Trying again would mean nothing.
    watch.fail_table_flushes = false;
    EXPECT_EQ(log_->Sync().code(), Code::kIOError);
    EXPECT_EQ(watch.counts_flush_count, 0);
    log_.reset();
  }
  FlushWatch watch(device_.path());
  const ScopedHook hook(&watch);
  Open();
  EXPECT_EQ(PrefixLength(), 600u);
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_GE(watch.entry_write_count, 1) << "written anew for the flush that counts";
  EXPECT_EQ(watch.early_flush_count, 0);
}

TEST_F(DeviceLogTest, WhatWasSyncedOutlivesThePower) {
  Append(0, 2 * kTinyRowRecords);
  ASSERT_TRUE(log_->Sync().ok());
  Append(2 * kTinyRowRecords, 6 * kTinyRowRecords);
  // Of the segments since, the first is lost and the others are not.
  LosePower(2, 3);
  Open();
  EXPECT_EQ(PrefixLength(), 2 * kTinyRowRecords);
  // Their places are taken again, and what lay there does not come back.
  Append(2 * kTinyRowRecords, 7 * kTinyRowRecords);
  EXPECT_EQ(PrefixLength(), 7 * kTinyRowRecords);
  ASSERT_TRUE(log_->Sync().ok());
  LosePower(15, 16);
  Open();
  EXPECT_EQ(PrefixLength(), 7 * kTinyRowRecords);
}

// The entries of records that a power loss has taken are still at the place of their segment. When
// the bucket gets that again, newer records lie before them.
TEST_F(DeviceLogTest, LostRecordsDoNotComeBackBehindNewerOnes) {
  Append(0, kTinyRowRecords);
  ASSERT_TRUE(log_->Sync().ok());
  Append(kTinyRowRecords, 2 * kTinyRowRecords);
  LosePower(1, 2);
  Open();
  EXPECT_EQ(PrefixLength(), kTinyRowRecords);
  Append(kTinyRowRecords, kTinyRowRecords + 128);
  ASSERT_TRUE(log_->Sync().ok());
  // After a clean end this time.
  LosePower(9, 9);
  Open();
  EXPECT_EQ(PrefixLength(), kTinyRowRecords + 128);
}

TEST_F(DeviceLogTest, EveryTailOfTheTableMayBeLost) {
  for (const uint64_t begin : {1, 3, 5}) {
    for (const uint64_t end : {begin + 1, uint64_t{7}}) {
      log_.reset();
      std::filesystem::remove_all(Dir());
      options_.overwrite_devices = true;
      Open();
      Append(0, kTinyRowRecords);
      ASSERT_TRUE(log_->Sync().ok());
      Append(kTinyRowRecords, 6 * kTinyRowRecords + 3);
      LosePower(begin, end);
      Open();
      const uint64_t length = PrefixLength();
      EXPECT_GE(length, kTinyRowRecords);
      EXPECT_LE(length, begin * kTinyRowRecords) << "lost from there on";
      Append(length, 8 * kTinyRowRecords);
      Open();
      EXPECT_EQ(PrefixLength(), 8 * kTinyRowRecords);
    }
  }
}

// Once it is committed, the store would not open again without room for it.
TEST_F(DeviceLogTest, ALargeBatchThatItHasNoRoomForIsRefusedAsAWhole) {
  ASSERT_TRUE(log_->Write(BatchOverAll(3, 1)).ok());
  // Five segments for each of four buckets.
  EXPECT_EQ(log_->Write(BatchOverAll(1100, 2)).code(), Code::kFull);
  const std::map<uint64_t, uint64_t> content = ContentOf(log_.get());
  EXPECT_EQ(content.size(), 12u);
  ASSERT_TRUE(log_->Write(BatchOverAll(3, 1)).ok());
  Open();
  ASSERT_NE(log_, nullptr);
  EXPECT_EQ(ContentOf(log_.get()), content);
}

}  // namespace
}  // namespace engine_race::test

// Disk space and files of a store under reclaim: its options, Compact, old formats.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "test/e2e/reclaim_fixture.h"
#include "test/e2e/small_disk.h"
#include "test/eventually.h"
#include "test/faults/system_calls.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

// Answers for a file system that cannot punch holes.
class NoHoles : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kFallocate || (call->flags & FALLOC_FL_PUNCH_HOLE) == 0) {
      return call->Proceed();
    }
    ++refused_count;
    errno = EOPNOTSUPP;
    return -1;
  }

  std::atomic<uint64_t> refused_count{0};
};

// Holes take longer than a write waits for snapshots.
class SlowHoles : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return call->Proceed();
  }
};

class ReclaimSpaceTest : public ReclaimTest {
 protected:
  uint64_t live_bytes() const { return held_.size() * kValueBytes; }
  // The last row of each bucket, which is not freed, and what a bucket may take beside.
  uint64_t slack_bytes() const { return 2 * options_.bucket_count * kRowRecords * kValueBytes; }
  void Sync() {
    const Status status = store_->Sync();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
};

TEST_F(ReclaimSpaceTest, WritesNeverCleanWhenReclaimIsOff) {
  SetRegions(4);
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint64_t kKeys = 800;
  uint64_t version = 0;
  Status status;
  while (status.ok() && version < 100) {
    ++version;
    for (uint64_t i = 0; i < kKeys && status.ok(); ++i) {
      status = TryWrite(i, version);
      if (status.ok()) held_[SpreadKey(i)] = version;
    }
  }
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  const StoreStats stats = store_->Stats();
  EXPECT_EQ(stats.reclaim_moved_bytes, 0u);
  EXPECT_EQ(stats.reclaim_freed_bytes, 0u);
  EXPECT_FALSE(HasRowFile());
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  // The bucket has whole rows of dead records: those need no row to move records to.
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_GT(store_->Stats().reclaim_freed_bytes, 0u);
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys / 2, ++version));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Each opening alone overwrites too little.
TEST_F(ReclaimSpaceTest, ManyShortOpeningsKeepTheBound) {
  SetRegions(1024);
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint64_t kKeys = 4096;
  constexpr uint64_t kEach = kKeys / 8;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, 1));
  for (uint64_t opening = 0; opening < 40; ++opening) {
    ASSERT_NO_FATAL_FAILURE(Open());
    const uint64_t first = opening % 8 * kEach;
    ASSERT_NO_FATAL_FAILURE(WriteAll(first, first + kEach, opening + 2));
  }
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_TRUE(Eventually([this] { return ValueDiskBytes() < 2 * live_bytes() + slack_bytes(); }))
      << ValueDiskBytes();
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

TEST_F(ReclaimSpaceTest, CleaningGoesOnInTheBackground) {
  SetRegions(1024);
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint64_t kKeys = 3000;
  uint64_t version = 0;
  for (int i = 0; i < 8; ++i) ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, ++version));
  EXPECT_TRUE(Eventually([this] { return store_->Stats().reclaim_freed_bytes != 0; }));
  EXPECT_TRUE(Eventually([this] { return ValueDiskBytes() < 2 * live_bytes() + slack_bytes(); }))
      << ValueDiskBytes();
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// A bucket of live records alone takes the space of another's dead ones.
TEST_F(ReclaimSpaceTest, OnAFullDiskOtherBucketsGiveSpaceBack) {
  SmallDisk disk(DiskKind::kTmpfs);
  if (!disk.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
  SetRegions(64);
  // Nothing is cleaned before the disk is full.
  options_.reclaim_dead_percent = 99;
  store_ = OpenStore(disk.StoreDir(), options_);
  ASSERT_NE(store_, nullptr);
  const uint64_t last_quarter = uint64_t{3} << 62;
  const auto write = [this](uint64_t key, uint64_t version) {
    return store_->Write(KeyBytes(key).view(), ValueOf(key, version));
  };
  constexpr uint64_t kDeadRecords = 3000;
  for (uint64_t i = 0; i < kDeadRecords; ++i) {
    ASSERT_TRUE(write(last_quarter + i % 100, i).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Sync());
  disk.AddBallast(2 * kDiskBytes);
  for (uint64_t i = 0; i < kDeadRecords / 2; ++i) {
    const Status status = write(i, 1);
    ASSERT_TRUE(status.ok()) << "record " << i << ": " << status.ToString();
  }
  store_.reset();
}

// A store without overwritten records pays nothing.
TEST_F(ReclaimSpaceTest, AStoreThatIsNeverOverwrittenIsNeverCleaned) {
  SetRegions(64);
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint64_t kKeys = 20000;
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(Write(i, 1));
  for (int i = 0; i < 2; ++i) {
    const StoreStats stats = store_->Stats();
    EXPECT_EQ(stats.reclaim_moved_bytes, 0u);
    EXPECT_EQ(stats.reclaim_freed_bytes, 0u);
    EXPECT_EQ(stats.live_bytes, live_bytes());
    EXPECT_EQ(stats.dead_bytes, 0u);
    EXPECT_FALSE(HasRowFile());
    ASSERT_NO_FATAL_FAILURE(Compact());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

TEST_F(ReclaimSpaceTest, AnEmptyStoreIsCompactAlready) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_FALSE(HasRowFile());
  EXPECT_EQ(store_->Stats().reclaim_freed_bytes, 0u);
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 10, 1));
  ASSERT_NO_FATAL_FAILURE(Compact());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

TEST_F(ReclaimSpaceTest, CompactGivesDiskBlocksBackAndASecondOneDoesNothing) {
  SetRegions(64);
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint64_t kKeys = 8000;
  uint64_t version = 0;
  for (int i = 0; i < 5; ++i) ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, ++version));
  for (uint64_t i = 0; i < kKeys / 2; ++i) ASSERT_NO_FATAL_FAILURE(Delete(i));
  ASSERT_NO_FATAL_FAILURE(Sync());
  const uint64_t before = ValueDiskBytes();
  ASSERT_GE(before, 5 * kKeys * kValueBytes);
  ASSERT_NO_FATAL_FAILURE(Compact());
  const uint64_t after = ValueDiskBytes();
  EXPECT_LE(after, live_bytes() + slack_bytes());
  EXPECT_GE(after, live_bytes() - slack_bytes());
  const StoreStats stats = store_->Stats();
  EXPECT_GE(stats.reclaim_freed_bytes, before - after);
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_EQ(store_->Stats().reclaim_moved_bytes, stats.reclaim_moved_bytes);
  EXPECT_EQ(ValueDiskBytes(), after);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_EQ(store_->Stats().reclaim_moved_bytes, 0u) << "the same after reopening";
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// One record in eight of six rows is dead: that is not one row.
TEST_F(ReclaimSpaceTest, CompactGivesBackLessThanARow) {
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(64));
  constexpr uint64_t kKeys = 6 * kRowRecords;
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(Write(i, 1));
  for (uint64_t i = 0; i < kKeys; i += 8) ASSERT_NO_FATAL_FAILURE(Write(i, 2));
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_LT(ValueDiskBytes(), live_bytes() + kKeys / 16 * kValueBytes);
  for (uint64_t i = 1; i < kKeys; i += 8) ASSERT_NO_FATAL_FAILURE(Write(i, 3));
  ASSERT_NO_FATAL_FAILURE(ExpectHeld()) << "records fill the gaps again";
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// The records of the row lie at its beginning. Moving them would win nothing.
TEST_F(ReclaimSpaceTest, CompactGivesBackTheEndOfARowThatItLeaves) {
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(64));
  for (uint64_t i = 0; i < kRowRecords; ++i) ASSERT_NO_FATAL_FAILURE(Write(i, 1));
  for (uint64_t i = kRowRecords / 2; i < kRowRecords; ++i) ASSERT_NO_FATAL_FAILURE(Write(i, 2));
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_EQ(store_->Stats().reclaim_moved_bytes, 0u);
  EXPECT_LT(ValueDiskBytes(), live_bytes() + kRowRecords / 16 * kValueBytes);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Space of records that a snapshot shows is given back after its release.
TEST_F(ReclaimSpaceTest, CompactLeavesWhatASnapshotShows) {
  SetRegions(64);
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr uint64_t kKeys = 4096;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, 1));
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, 2));
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_GE(ValueDiskBytes(), 2 * live_bytes() - slack_bytes());
  for (uint64_t i = 0; i < kKeys; ++i) {
    std::string value;
    ASSERT_TRUE(store_->Read(snapshot, KeyBytes(SpreadKey(i)).view(), &value).ok()) << i;
    ASSERT_TRUE(value == ValueOf(SpreadKey(i), 1)) << i;
  }
  snapshot = Snapshot();
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_LE(ValueDiskBytes(), live_bytes() + slack_bytes());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Live records fill five of eight rows, and dead ones less than one.
TEST_F(ReclaimSpaceTest, CompactOfTightRegions) {
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = slot_count() * 5 / 8;
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, count, 1));
  ASSERT_NO_FATAL_FAILURE(WriteAll(count - count / 8, count, 2));
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_GT(store_->Stats().reclaim_freed_bytes, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, count / 16, 3));
  ASSERT_NO_FATAL_FAILURE(Compact());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// No row is free. All records are live, or all of a row's are dead.
TEST_F(ReclaimSpaceTest, CompactOfFullRegions) {
  for (const bool overwrite : {false, true}) {
    SCOPED_TRACE(overwrite ? "half of it is dead" : "all of it is live");
    store_.reset();
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      std::filesystem::remove_all(entry.path());
    }
    held_.clear();
    SetRegions(4);
    options_.reclaim = Reclaim::kOff;
    ASSERT_NO_FATAL_FAILURE(Open());
    std::vector<uint64_t> counts(options_.bucket_count);
    for (uint64_t i = 0; i < 4 * slot_count(); ++i) {
      uint64_t& count = counts[SpreadKey(i) >> 62];
      if (count == options_.bucket_capacity_records) continue;
      ASSERT_NO_FATAL_FAILURE(Write(i, 1));
      count += 1;
      if (!overwrite) continue;
      ASSERT_NO_FATAL_FAILURE(Write(i, 2));
      count += 1;
    }
    ASSERT_NO_FATAL_FAILURE(Compact());
    ASSERT_NO_FATAL_FAILURE(Compact());
    ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  }
}

TEST_F(ReclaimSpaceTest, WithoutHolesSlotsAreUsedAgainAllTheSame) {
  NoHoles no_holes;
  const ScopedHook hook(&no_holes);
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = slot_count() * 3 / 8;
  uint64_t version = 0;
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(WriteAll(0, count, ++version));
  EXPECT_GT(no_holes.refused_count, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  const std::vector<std::string> lines = lines_.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.find("cannot punch holes") != std::string::npos;
                          }),
            1)
      << lines_.text();
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, count, ++version));
  ASSERT_NO_FATAL_FAILURE(Compact());
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
  EXPECT_LE(ValueDiskBytes(), slot_count() * kValueBytes);
}

// Writers wait for the thread that makes room, which is another one here.
TEST_F(ReclaimSpaceTest, AFullRegionWaitsForHolesThatTakeTheirTime) {
  SlowHoles slow_holes;
  const ScopedHook hook(&slow_holes);
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(4));
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 300, 1));
  std::atomic<bool> stop{false};
  std::thread compacting([&] {
    while (!stop) EXPECT_TRUE(store_->Compact().ok());
  });
  const uint64_t last_version = 1 + PartOf(4, 2);
  for (uint64_t version = 2; version <= last_version && !HasFailure(); ++version) {
    WriteAllBy(8, 300, version);
  }
  stop = true;
  compacting.join();
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// A limit on the rate delays cleaning, and loses nothing.
TEST_F(ReclaimSpaceTest, CleaningKeepsToItsRate) {
  SetRegions(1024);
  options_.reclaim_bytes_per_second = 1 << 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto begin = std::chrono::steady_clock::now();
  constexpr uint64_t kKeys = 3000;
  uint64_t version = 0;
  for (int i = 0; i < 6; ++i) ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, ++version));
  EXPECT_TRUE(Eventually([this] { return store_->Stats().reclaim_freed_bytes != 0; }));
  const uint64_t moved_bytes = store_->Stats().reclaim_moved_bytes;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // One cleaning of a bucket is moved as a whole.
  const uint64_t bucket_bytes = kKeys / 2 * kValueBytes;
  EXPECT_LE(static_cast<double>(moved_bytes),
            seconds * static_cast<double>(options_.reclaim_bytes_per_second) +
                static_cast<double>(bucket_bytes));
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

// Nothing else tells which records the slots hold.
TEST_F(ReclaimSpaceTest, AStoreThatHasLostItsRowsIsCorruption) {
  options_.reclaim = Reclaim::kOff;
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t count = slot_count() * 3 / 8;
  for (const uint64_t version : {1, 2}) ASSERT_NO_FATAL_FAILURE(WriteAll(0, count, version));
  ASSERT_NO_FATAL_FAILURE(Compact());
  store_.reset();
  const std::string rows = dir_.Join(format::kRowsName);
  std::filesystem::rename(rows, rows + ".lost");
  const Status opened = Store::Open(AsRun(options_), dir_.path(), &store_);
  EXPECT_EQ(opened.code(), Code::kCorruption) << opened.ToString();
  EXPECT_TRUE(lines_.Said(format::kRowsName)) << lines_.text();
  std::filesystem::rename(rows + ".lost", rows);
  ASSERT_NO_FATAL_FAILURE(ExpectHeldAfterReopening());
}

}  // namespace
}  // namespace engine_race::test

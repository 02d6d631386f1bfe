// A store that has filled its disk can be emptied: deletions, Compact, and then writes succeed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/log/format.h"
#include "engine_race/log/space_reserve.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/small_disk.h"

namespace engine_race::test {
namespace {

// A record of every 16 stays, so that records are moved.
constexpr uint64_t kKeptShare = 16;

class FullStoreTest : public ::testing::TestWithParam<std::tuple<DiskKind, SyncMode, Reclaim>> {
 protected:
  FullStoreTest() : disk_(std::get<0>(GetParam())) {
    options_ = SmallGroups();
    options_.sync_mode = std::get<1>(GetParam());
    options_.reclaim = std::get<2>(GetParam());
    options_.journal_bytes = kMinJournalBytes;
    options_.index_close_bytes = options_.index_sync_bytes = 0;
  }
  void SetUp() override {
    if (!disk_.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
    store_ = OpenStore(disk_.StoreDir(), options_);
    ASSERT_NE(store_, nullptr);
  }
  // Writes new keys until the disk is full.
  void Fill() {
    Status status;
    while ((status = Put(count_)).ok()) ++count_;
    ASSERT_EQ(status.code(), Code::kFull) << status.ToString();
    ASSERT_GT(count_, kDiskBytes / 4 / kValueBytes);
  }
  Status Put(uint64_t i) { return store_->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1)); }
  static bool IsKept(uint64_t i) { return i % kKeptShare == 0; }
  void DeleteMost(Store* store) const {
    for (uint64_t i = 0; i < count_; ++i) {
      if (IsKept(i)) continue;
      const Status status = store->Delete(KeyOf(NthKey(i)));
      ASSERT_TRUE(status.ok()) << "deletion " << i << ": " << status.ToString();
    }
  }
  void ExpectKept() {
    for (uint64_t i = 0; i < count_; ++i) {
      ASSERT_EQ(VersionOf(store_.get(), NthKey(i)), IsKept(i) ? 1u : 0u) << i;
    }
  }
  void ExpectWritable() {
    const Status compacted = store_->Compact();
    ASSERT_TRUE(compacted.ok()) << compacted.ToString();
    for (uint64_t i = count_; i < count_ + count_ / 2; ++i) {
      const Status status = Put(i);
      ASSERT_TRUE(status.ok()) << "write " << i - count_ << ": " << status.ToString();
    }
  }

  SmallDisk disk_;
  Options options_;
  std::unique_ptr<Store> store_;
  uint64_t count_ = 0;
};

TEST_P(FullStoreTest, IsEmptiedByDeletions) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(DeleteMost(store_.get()));
  ASSERT_NO_FATAL_FAILURE(ExpectWritable());
  ASSERT_NO_FATAL_FAILURE(ExpectKept());
  store_.reset();
  store_ = OpenStore(disk_.StoreDir(), options_);
  ASSERT_NE(store_, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectKept());
  ASSERT_TRUE(store_->Sync().ok());
}

// The process dies while the reserve is given up.
TEST_P(FullStoreTest, IsEmptiedAfterAKill) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  store_.reset();
  ASSERT_EQ(InChild([&] {
              const auto store = OpenStore(disk_.StoreDir(), options_);
              if (store == nullptr) return 1;
              for (uint64_t i = 0; i < count_ / 2; ++i) {
                if (!IsKept(i) && !store->Delete(KeyOf(NthKey(i))).ok()) return 2;
              }
              ::kill(::getpid(), SIGKILL);
              return 3;
            }),
            -1 - SIGKILL);
  store_ = OpenStore(disk_.StoreDir(), options_);
  ASSERT_NE(store_, nullptr);
  ASSERT_NO_FATAL_FAILURE(DeleteMost(store_.get()));
  ASSERT_NO_FATAL_FAILURE(ExpectWritable());
  ASSERT_NO_FATAL_FAILURE(ExpectKept());
}

// The reserve is for deletions and moves: values would use it up.
TEST(FullStoreOfValuesTest, ValuesAreRefusedWhileTheReserveIsGivenUp) {
  const SmallDisk disk(DiskKind::kTmpfs);
  if (!disk.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
  std::atomic<bool> is_given_up{false};
  Options options = SmallGroups();
  options.reclaim = Reclaim::kOff;
  options.log = [&](LogLevel, std::string_view message) {
    if (message.find("is given up") != std::string_view::npos) is_given_up = true;
  };
  const auto store = OpenStore(disk.StoreDir(), options);
  ASSERT_NE(store, nullptr);
  uint64_t count = 0;
  const auto put = [&] { return store->Write(KeyOf(NthKey(count)), ValueOf(NthKey(count), 1)); };
  while (put().ok()) ++count;
  ASSERT_FALSE(is_given_up);
  uint64_t deleted_count = 0;
  while (!is_given_up && deleted_count < count) {
    ASSERT_TRUE(store->Delete(KeyOf(NthKey(deleted_count++))).ok());
  }
  ASSERT_TRUE(is_given_up);
  EXPECT_EQ(put().code(), Code::kFull);
  EXPECT_TRUE(store->Delete(KeyOf(NthKey(deleted_count))).ok());
}

// With many buckets the groups that are not in the logs yet do not fit into the reserve. So some of
// the buckets must be cleaned before others are synced. Keys that are spread evenly fill all of the
// groups at once.
// Values that share blocks leave no holes.
class FullStoreOfManyBucketsTest
    : public ::testing::TestWithParam<std::tuple<bool, uint32_t /*value_bytes*/>> {
 protected:
  static uint64_t Key(uint64_t i) {
    return std::get<0>(GetParam()) ? NthKey(i) : std::mt19937_64(i)();
  }
};

TEST_P(FullStoreOfManyBucketsTest, FewDeletionsMakeRoom) {
  const SmallDisk disk(DiskKind::kTmpfs, 3 * kDiskBytes);
  if (!disk.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
  Options options;
  options.value_bytes = std::get<1>(GetParam());
  options.bucket_count = 32;
  options.reclaim = Reclaim::kOff;
  const auto store = OpenStore(disk.StoreDir(), options);
  ASSERT_NE(store, nullptr);
  const auto put = [&](uint64_t i) {
    return store->Write(KeyOf(Key(i)), ValueOf(Key(i), 1, options.value_bytes));
  };
  uint64_t count = 0;
  while (put(count).ok()) ++count;
  std::vector<bool> deleted(count);
  // Most buckets refuse the first deletions, and have room for them after the first Compact.
  for (const uint64_t share : {16, 4, 2}) {
    for (uint64_t i = 0; i < count / share; ++i) {
      const Status status = store->Delete(KeyOf(Key(i)));
      ASSERT_TRUE(status.ok() || status.code() == Code::kFull) << status.ToString();
      deleted[i] = deleted[i] || status.ok();
    }
    const Status compacted = store->Compact();
    ASSERT_TRUE(compacted.ok()) << "a part of " << share << ": " << compacted.ToString();
  }
  for (uint64_t i = count; i < count + count / 4; ++i) ASSERT_TRUE(put(i).ok()) << i;
  std::string value;
  for (uint64_t i = 0; i < count + count / 4; ++i) {
    const Code code = store->Read(KeyOf(Key(i)), &value).code();
    ASSERT_EQ(code, i < count && deleted[i] ? Code::kNotFound : Code::kOk) << i;
    ASSERT_TRUE(code != Code::kOk || value == ValueOf(Key(i), 1, options.value_bytes)) << i;
  }
  EXPECT_GT(std::count(deleted.begin(), deleted.end(), true), count / 3);
}

INSTANTIATE_TEST_SUITE_P(Keys, FullStoreOfManyBucketsTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(512, 1000, kValueBytes, 5000)),
                         [](const auto& info) {
                           return (std::get<0>(info.param) ? "Even" : "Random") +
                                  std::to_string(std::get<1>(info.param));
                         });

// A copy may fill its disk as well.
TEST(ReserveOfCopiesTest, CheckpointsCopiesAndRestoredStoresHaveOne) {
  const TempDir dir{FastParent()};
  Options options = SmallGroups();
  options.create_if_missing = true;
  {
    const auto store = OpenStore(dir.Join("store"), options);
    ASSERT_NE(store, nullptr);
    ASSERT_TRUE(store->Write(KeyOf(NthKey(0)), ValueOf(NthKey(0), 1)).ok());
    ASSERT_TRUE(store->Checkpoint(dir.Join("checkpoint")).ok());
    ASSERT_TRUE(store->Backup(dir.Join("backup")).ok());
  }
  ASSERT_TRUE(Store::Restore(options, dir.Join("backup"), dir.Join("restored")).ok());
  VerifyReport report;
  ASSERT_TRUE(Store::Copy(options, dir.Join("store"), dir.Join("copy"), &report, {}).ok());
  for (const char* const name : {"store", "checkpoint", "restored", "copy"}) {
    struct stat info {};
    const std::string path = dir.Join(name) + "/" + format::kReserveName;
    ASSERT_EQ(::stat(path.c_str(), &info), 0) << path;
    EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, SpaceReserve::kBytes) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Disks, FullStoreTest,
    ::testing::Values(std::tuple{DiskKind::kTmpfs, SyncMode::kNone, Reclaim::kBackground},
                      std::tuple{DiskKind::kTmpfs, SyncMode::kNone, Reclaim::kOff},
                      std::tuple{DiskKind::kTmpfs, SyncMode::kGroup, Reclaim::kBackground},
                      std::tuple{DiskKind::kTmpfs, SyncMode::kEveryWrite, Reclaim::kBackground},
                      std::tuple{DiskKind::kExt4With4KBlocks, SyncMode::kNone,
                                 Reclaim::kBackground},
                      std::tuple{DiskKind::kXfs, SyncMode::kNone, Reclaim::kBackground}),
    [](const auto& info) {
      return std::string(DiskName(std::get<0>(info.param))) + "Sync" +
             std::to_string(static_cast<int>(std::get<1>(info.param))) +
             (std::get<2>(info.param) == Reclaim::kOff ? "ReclaimOff" : "");
    });

}  // namespace
}  // namespace engine_race::test

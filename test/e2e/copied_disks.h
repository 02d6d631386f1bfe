// The file systems that checkpoints are made on. Temporary files lie where records are copied;
// small file systems of the test's own can share blocks.
//
// Stateless.
#ifndef TEST_E2E_COPIED_DISKS_H_
#define TEST_E2E_COPIED_DISKS_H_

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/log/store_files.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/small_disk.h"
#include "test/log/entry_test_util.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {

using KeyVersions = std::map<uint64_t, uint64_t>;

// Those of `kinds` that this process can make and mount.
inline std::vector<DiskKind> Mountable(const std::vector<DiskKind>& kinds) {
  std::vector<DiskKind> mountable;
  const bool may_mount = ::geteuid() == 0 && ::access("/dev/loop-control", R_OK | W_OK) == 0;
  for (const DiskKind kind : kinds) {
    const bool is_btrfs = kind == DiskKind::kBtrfs;
    const std::string program = is_btrfs                 ? "mkfs.btrfs"
                                : kind == DiskKind::kXfs ? "mkfs.xfs"
                                                         : "mkfs.ext4";
    const bool has_program = ::access(("/usr/sbin/" + program).c_str(), X_OK) == 0 ||
                             ::access(("/sbin/" + program).c_str(), X_OK) == 0;
    if (may_mount && has_program) mountable.push_back(kind);
  }
  return mountable;
}

inline std::string NameOfDisk(const ::testing::TestParamInfo<DiskKind>& info) {
  return DiskName(info.param);
}

// Everything in the store in `dir`.
inline KeyVersions ContentsOf(Store* store) {
  KeyVersions contents;
  for (const auto& [key, version] : RangeOf(store, "", "")) contents[key] = version;
  return contents;
}

inline KeyVersions ContentsOf(const std::string& dir, const Options& options = {}) {
  Options there = options;
  there.create_if_missing = false;
  const std::unique_ptr<Store> store = OpenStore(dir, there);
  return store == nullptr ? KeyVersions() : ContentsOf(store.get());
}

// Writes the first records of an empty store. Then the first of them has another value on disk,
// which the index takes for its own.
inline void ChangeFirstValue(Store* store, const std::string& dir) {
  const CollidingValues values;
  for (uint64_t key = 0; key < 8; ++key) {
    ASSERT_TRUE(store->Write(KeyOf(key), values.first).ok());
  }
  ASSERT_TRUE(store->Sync().ok());
  Overwrite(dir + "/value_00", values.second.data(), values.second.size(), 0);
  std::string value;
  ASSERT_TRUE(store->Read(KeyOf(0), &value).ok());
  ASSERT_EQ(value, values.second);
}

// Written, overwritten and deleted, spread over all buckets. Without a store in `contents` alone.
inline void Change(Store* store, uint64_t begin, uint64_t end, KeyVersions* contents) {
  for (uint64_t i = begin; i < end; ++i) {
    const uint64_t key = NthKey(i % 701);
    if (i % 11 == 7) {
      ASSERT_TRUE(store == nullptr || store->Delete(KeyOf(key)).ok());
      contents->erase(key);
    } else {
      ASSERT_TRUE(store == nullptr || store->Write(KeyOf(key), ValueOf(key, i + 1)).ok());
      (*contents)[key] = i + 1;
    }
  }
}

inline StoreIdentity IdentityOf(const std::string& dir) {
  StoreFiles files;
  const Status opened = OpenStoreFilesToRead(dir, &files);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  return files.identity;
}

inline void ExpectSound(const std::string& dir) {
  VerifyReport report;
  const Status verified = Store::Verify({}, dir, &report, [](const BadRecord& bad) {
    ADD_FAILURE() << bad.file << " bucket " << bad.bucket << " slot " << bad.slot << ": "
                  << bad.what;
  });
  EXPECT_TRUE(verified.ok()) << verified.ToString();
}

// Sixty-four writers, each of which writes its own keys of all buckets over and over, in order.
class BusyWriters {
 public:
  static constexpr uint32_t kThreads = 64;
  static constexpr uint64_t kKeys = 8;

  explicit BusyWriters(Store* store) : store_(*store) {
    for (uint32_t t = 0; t < kThreads; ++t) threads_.emplace_back([this, t] { Run(t); });
  }
  ~BusyWriters() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

  // How many writes of each thread were acknowledged, or have at least begun.
  std::vector<uint64_t> Acknowledged() const { return Counts(acknowledged_); }
  std::vector<uint64_t> Begun() const { return Counts(begun_); }

  // How many writes of thread `t` the contents show; -1 when those are no prefix of them.
  static int64_t PrefixOf(uint32_t t, const KeyVersions& contents) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < kKeys; ++i) sum += VersionIn(contents, KeyNumber(t, i));
    for (uint64_t i = 0; i < kKeys; ++i) {
      const uint64_t expected = sum / kKeys + (i < sum % kKeys ? 1 : 0);
      if (VersionIn(contents, KeyNumber(t, i)) != expected) return -1;
    }
    return static_cast<int64_t>(sum);
  }

 private:
  using CountsOfThreads = std::array<std::atomic<uint64_t>, kThreads>;

  static uint64_t KeyNumber(uint32_t t, uint64_t i) { return (i << 61) + t * 977 + i; }
  static uint64_t VersionIn(const KeyVersions& contents, uint64_t key) {
    const auto found = contents.find(key);
    return found == contents.end() ? 0 : found->second;
  }
  static std::vector<uint64_t> Counts(const CountsOfThreads& of_threads) {
    return {of_threads.begin(), of_threads.end()};
  }

  void Run(uint32_t t) {
    for (uint64_t n = 0; !stop_.load(); ++n) {
      const uint64_t key = KeyNumber(t, n % kKeys);
      begun_[t].store(n + 1);
      const Status written = store_.Write(KeyOf(key), ValueOf(key, n / kKeys + 1));
      ASSERT_TRUE(written.ok()) << written.ToString();
      acknowledged_[t].store(n + 1);
      // Bounds what they write.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  Store& store_;
  std::atomic<bool> stop_{false};
  CountsOfThreads begun_{};
  CountsOfThreads acknowledged_{};
  std::vector<std::thread> threads_;
};

// Makes checkpoints beside the writers. Each must be one moment of all of them.
inline void ExpectOneMoment(Store* store, const std::string& parent, const CheckpointOptions& how) {
  constexpr int kCheckpoints = 4;
  const BusyWriters writers(store);
  while (writers.Acknowledged()[0] < 50) std::this_thread::yield();
  for (int i = 0; i < kCheckpoints; ++i) {
    const std::string to = parent + "/at" + std::to_string(i);
    const std::vector<uint64_t> before = writers.Acknowledged();
    const Status made = store->Checkpoint(to, how);
    const std::vector<uint64_t> after = writers.Begun();
    ASSERT_TRUE(made.ok()) << made.ToString();
    const KeyVersions contents = ContentsOf(to);
    for (uint32_t t = 0; t < BusyWriters::kThreads; ++t) {
      const int64_t prefix = BusyWriters::PrefixOf(t, contents);
      ASSERT_GE(prefix, static_cast<int64_t>(before[t])) << "thread " << t;
      ASSERT_LE(prefix, static_cast<int64_t>(after[t])) << "thread " << t;
    }
    std::filesystem::remove_all(to);
  }
}

}  // namespace engine_race::test

#endif  // TEST_E2E_COPIED_DISKS_H_

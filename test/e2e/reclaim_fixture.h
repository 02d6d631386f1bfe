// Stores with small buckets, whose slots are used again and again.
#ifndef TEST_E2E_RECLAIM_FIXTURE_H_
#define TEST_E2E_RECLAIM_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/log_lines.h"

namespace engine_race::test {

inline constexpr uint64_t kRowRecords = 256;

// Four buckets of `row_count` rows of 256 slots.
inline Options RegionsOf(uint64_t row_count) {
  Options options = TinyOptions();
  options.bucket_capacity_records = row_count * kRowRecords;
  options.key_group_bytes = kRowRecords * kKeyEntryBytes;
  return options;
}

// The keys of a test, in all buckets.
inline uint64_t SpreadKey(uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; }

class ReclaimTest : public ::testing::Test {
 protected:
  ReclaimTest() : dir_(FastParent()) { options_.log = lines_.Callback(); }

  void SetRegions(uint64_t row_count) {
    const LogFn log = options_.log;
    options_ = RegionsOf(row_count);
    options_.log = log;
  }
  uint64_t slot_count() const { return options_.bucket_count * options_.bucket_capacity_records; }

  void Open() {
    store_.reset();
    store_ = OpenStore(dir_.path(), options_);
    ASSERT_NE(store_, nullptr);
  }
  // A store of one bucket, which has `row_count` rows.
  void OpenOneRegion(uint64_t row_count) {
    options_.bucket_count = 1;
    options_.file_count = 1;
    options_.bucket_capacity_records = row_count * kRowRecords;
    Open();
  }

  Status TryWrite(uint64_t i, uint64_t version) {
    const uint64_t key = SpreadKey(i);
    return store_->Write(KeyBytes(key).view(), ValueOf(key, version));
  }
  void Write(uint64_t i, uint64_t version) {
    const Status status = TryWrite(i, version);
    ASSERT_TRUE(status.ok()) << "key " << i << ", version " << version << ": " << status.ToString();
    held_[SpreadKey(i)] = version;
  }
  void Delete(uint64_t i) {
    const Status status = store_->Delete(KeyBytes(SpreadKey(i)).view());
    ASSERT_TRUE(status.ok()) << "key " << i << ": " << status.ToString();
    held_.erase(SpreadKey(i));
  }
  // Writes the keys [begin, end) in an order of its own.
  void WriteAll(uint64_t begin, uint64_t end, uint64_t version) {
    std::vector<uint64_t> order;
    for (uint64_t i = begin; i < end; ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(version));
    for (const uint64_t i : order) ASSERT_NO_FATAL_FAILURE(Write(i, version));
  }
  // WriteAll of the keys below `key_count` by several threads. Each writes keys of its own.
  void WriteAllBy(uint32_t thread_count, uint64_t key_count, uint64_t version) {
    RunThreads(thread_count, [&](uint32_t t) {
      std::vector<uint64_t> order;
      for (uint64_t i = t; i < key_count; i += thread_count) order.push_back(i);
      std::shuffle(order.begin(), order.end(), std::mt19937_64(version * thread_count + t));
      for (const uint64_t i : order) {
        const Status status = TryWrite(i, version);
        ASSERT_TRUE(status.ok()) << "key " << i << ", version " << version << ": "
                                 << status.ToString();
      }
    });
    ASSERT_FALSE(HasFatalFailure()) << "a thread could not write";
    for (uint64_t i = 0; i < key_count; ++i) held_[SpreadKey(i)] = version;
  }
  void Compact() {
    const Status status = store_->Compact();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  // Expects what was written, in the store that is open.
  void ExpectHeld() { ASSERT_NO_FATAL_FAILURE(ExpectHolds(store_.get(), held_)); }
  // Closes the store, verifies it, and expects what was written when it is open again.
  void ExpectHeldAfterReopening() {
    VerifyReport report;
    ASSERT_NO_FATAL_FAILURE(Verify(&report));
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  }
  // Closes the store.
  void Verify(VerifyReport* report) {
    store_.reset();
    const Status status = Store::Verify(options_, dir_.path(), report, [](const BadRecord& bad) {
      ADD_FAILURE() << bad.file << ", bucket " << bad.bucket << ", slot " << bad.slot << ": "
                    << bad.what;
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(report->lost_tail_count, 0u);
  }

  // Bytes of the disk blocks that the value logs take.
  uint64_t ValueDiskBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      struct stat info {};
      if (entry.path().filename().string().rfind("value_", 0) != 0) continue;
      EXPECT_EQ(::stat(entry.path().c_str(), &info), 0);
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  }
  bool HasRowFile() const { return std::filesystem::exists(dir_.Join(format::kRowsName)); }

  LogLines lines_;
  Options options_ = RegionsOf(8);
  const TempDir dir_;
  std::unique_ptr<Store> store_;
  // Versions by key.
  std::map<uint64_t, uint64_t> held_;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_RECLAIM_FIXTURE_H_

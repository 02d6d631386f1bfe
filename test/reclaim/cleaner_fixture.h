// A store of one bucket that is written to and cleaned, and what it is expected to hold.
#ifndef TEST_RECLAIM_CLEANER_FIXTURE_H_
#define TEST_RECLAIM_CLEANER_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine_race/copies/copies.h"
#include "engine_race/reclaim/bucket_cleaner.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {

inline constexpr uint64_t kRow = 256;

// Regions of `row_count` rows; the records of a test are in the first bucket.
inline Options Rows(uint64_t row_count) {
  Options options = TinyLogOptions();
  options.bucket_capacity_records = row_count * kRow;
  return options;
}

class BucketCleanerTest : public ::testing::Test {
 protected:
  explicit BucketCleanerTest(const Options& options = Rows(64)) : options_(options) { Open(); }

  void Open() {
    cleaner_.reset();
    log_.reset();
    log_ = OpenLog(options_, dir_.path());
    cleaner_ = std::make_unique<BucketCleaner>(log_.get());
  }
  void Put(uint64_t key) {
    const uint64_t version = ++count_;
    const Status status = log_->Append(key, ValueOf(key, version, options_.value_bytes).data());
    ASSERT_TRUE(status.ok()) << status.ToString();
    held_[key] = version;
  }
  void Delete(uint64_t key) {
    ++count_;
    ASSERT_TRUE(log_->Append(key, nullptr).ok());
    held_.erase(key);
  }
  // New keys.
  void PutNew(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(Put(next_key_++));
  }
  BucketUse Clean(uint32_t dead_percent) {
    BucketUse use;
    EXPECT_TRUE(log_->mover().Claim(0));
    const Status cleaned = cleaner_->Clean(0, dead_percent, &use);
    EXPECT_TRUE(cleaned.ok()) << cleaned.ToString();
    log_->mover().Unclaim(0);
    return use;
  }
  void Settle() {
    ASSERT_TRUE(log_->mover().Settle().ok());
    log_->mover().Release();
  }
  // The slots that were given up and not settled yet.
  std::set<uint64_t> GivenUp() {
    std::set<uint64_t> given_up;
    for (const auto& [row, slots] : log_->mover().UnsettledSlots(0)) {
      for (uint32_t i = 0; i < kRow; ++i) {
        if (slots.Has(i)) given_up.insert(row * kRow + i);
      }
    }
    return given_up;
  }
  // Overwrites each record of these, which are still the first ones of the bucket.
  void KillEvery(uint64_t begin, uint64_t end, uint64_t step = 1) {
    for (uint64_t key = begin; key < end; key += step) ASSERT_NO_FATAL_FAILURE(Put(key));
  }
  // The newest records of all keys, from all rows, and their values.
  void ExpectHeld() {
    std::map<uint64_t, KeyRecord> newest;
    for (const KeyRecord& record : RecordsOf(log_.get(), 0)) {
      KeyRecord& known = newest.try_emplace(record.key, record).first->second;
      if (record.sequence > known.sequence) known = record;
    }
    uint64_t found_count = 0;
    for (const auto& [key, record] : newest) {
      const auto held = held_.find(key);
      if (held == held_.end()) {
        ASSERT_TRUE(record.tombstone) << "key " << key << " came back";
        continue;
      }
      ++found_count;
      ASSERT_FALSE(record.tombstone) << key;
      ASSERT_EQ(ReadSlot(*log_, 0, record.slot), ValueOf(key, held->second, options_.value_bytes))
          << key;
    }
    EXPECT_EQ(found_count, held_.size());
  }
  void ExpectHeldAfterReopening() {
    cleaner_.reset();
    log_.reset();
    VerifyReport report;
    const Status verified = VerifyStore(dir_.path(), &report, [](const BadRecord& bad) {
      ADD_FAILURE() << bad.file << ", slot " << bad.slot << ": " << bad.what;
    });
    ASSERT_TRUE(verified.ok()) << verified.ToString();
    Open();
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  }
  uint64_t TombstoneCount() {
    const std::vector<KeyRecord> records = RecordsOf(log_.get(), 0);
    return static_cast<uint64_t>(std::count_if(
        records.begin(), records.end(), [](const KeyRecord& record) { return record.tombstone; }));
  }

  const TempDir dir_{FastParent()};
  const Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<BucketCleaner> cleaner_;
  uint64_t next_key_ = 0;
  uint64_t count_ = 0;
  std::map<uint64_t, uint64_t> held_;
};

}  // namespace engine_race::test

#endif  // TEST_RECLAIM_CLEANER_FIXTURE_H_

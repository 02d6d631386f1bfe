// An index that is larger than its memory, over a real log, and a model of what it must find.
#ifndef TEST_INDEX_PAGED_INDEX_FIXTURE_H_
#define TEST_INDEX_PAGED_INDEX_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/index/index.h"
#include "engine_race/l1/frame_cache.h"
#include "harness/load/fill_keys.h"
#include "test/log_lines.h"
#include "test/test_util.h"

namespace engine_race::test {

inline constexpr uint64_t kLast = ~uint64_t{0};
inline constexpr uint64_t kSeed = 3;

// A store, its newest records, and an index over it with a chosen number of frames.
class PagedIndexFixture : public ::testing::Test {
 protected:
  explicit PagedIndexFixture(uint32_t frame_count) : frame_count_(frame_count) {
    options_.bucket_count = 8;
    options_.file_count = 4;
    options_.bucket_capacity_records = 1 << 17;
    options_.build_thread_count = 2;
    options_.index_memory_bytes = 0;
    options_.index_idle_ms = 0;
    options_.log = messages_.Callback();
  }
  ~PagedIndexFixture() override { Close(); }

  void Fill(uint64_t count) {
    ASSERT_TRUE(harness::FillKeyLogs(options_, dir_.path(), count, kSeed).ok());
    Open();
    for (uint32_t b = 0; b < options_.bucket_count; ++b) {
      for (uint32_t slot = 0; slot < log_->RecordCount(b); ++slot) {
        newest_[harness::FilledKey(log_->geometry(), b, slot, kSeed)] = slot;
      }
    }
    ASSERT_EQ(newest_.size(), count);
  }

  void Open(Index::Opening opening = Index::Opening::kWhole) {
    ASSERT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
    if (frame_count_ > 0) {
      ASSERT_TRUE(
          l1::FrameCache::Create(l1::FrameCache::BytesFor(frame_count_), share_, &frames_).ok());
    }
    const Status built =
        Index::Build(log_.get(), options_, &index_, frames_.get(), limit_, opening, reads_);
    ASSERT_TRUE(built.ok()) << built.ToString();
  }

  void Close() {
    index_.reset();
    frames_.reset();
    log_.reset();
  }
  void Reopen() {
    Close();
    Open();
  }

  void Write(uint64_t key, bool tombstone = false) {
    const uint32_t bucket = log_->geometry().BucketOf(key);
    const uint32_t slot = static_cast<uint32_t>(log_->RecordCount(bucket));
    const std::string value = ValueOf(key, slot);
    ASSERT_TRUE(log_->Append(key, tombstone ? nullptr : value.data()).ok());
    if (tombstone) {
      newest_.erase(key);
    } else {
      newest_[key] = slot;
    }
  }
  // Writes to keys that are there, to new ones, and deletes some.
  void Churn(uint64_t count, std::mt19937_64* random) {
    for (uint64_t i = 0; i < count; ++i) {
      const auto found = newest_.lower_bound((*random)());
      const bool is_new = (*random)() % 3 == 0 || found == newest_.end();
      ASSERT_NO_FATAL_FAILURE(Write(is_new ? (*random)() : found->first, (*random)() % 8 == 0));
    }
  }

  void ExpectFinds(uint64_t step = 1) {
    uint64_t at = 0;
    for (const auto& [key, slot] : newest_) {
      if (at++ % step != 0) continue;
      ValueRef ref;
      const Status status = index_->Find(key, &ref);
      ASSERT_TRUE(status.ok()) << status.ToString() << " key " << key;
      ASSERT_EQ(ref.slot(), slot) << key;
      for (const uint64_t beside : {key - 1, key + 1}) {
        if (newest_.contains(beside)) continue;
        ASSERT_EQ(index_->Find(beside, &ref).code(), Code::kNotFound);
      }
    }
  }
  void ExpectWalks() {
    std::vector<std::pair<uint64_t, uint32_t>> got;
    for (uint32_t b = 0; b < options_.bucket_count; ++b) {
      std::vector<IndexEntry> entries;
      bool complete = false;
      const Status status = index_->Collect(b, 0, kLast, ~size_t{0}, &entries, &complete);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_TRUE(complete);
      for (const IndexEntry& entry : entries) got.emplace_back(entry.key, entry.ref.slot());
    }
    const std::vector<std::pair<uint64_t, uint32_t>> wanted(newest_.begin(), newest_.end());
    ASSERT_EQ(got, wanted);
    std::mt19937_64 random(5);
    for (int i = 0; i < 50; ++i) {
      const uint64_t from = random();
      std::vector<uint64_t> keys(random() % 700);
      size_t count = 0;
      ASSERT_TRUE(index_->FirstKeys(from, kLast, kLatestVersion, keys, &count).ok());
      auto next = newest_.lower_bound(from);
      for (size_t k = 0; k < count; ++k, ++next) ASSERT_EQ(keys[k], next->first);
      ASSERT_TRUE(count == keys.size() || next == newest_.end());
      ASSERT_TRUE(index_->LastKeys(0, from, kLatestVersion, keys, &count).ok());
      auto above = newest_.upper_bound(from);
      for (size_t k = count; k-- > 0;) ASSERT_EQ(keys[k], (--above)->first);
      ASSERT_TRUE(count == keys.size() || above == newest_.begin());
      std::vector<IndexEntry> entries;
      bool complete = false;
      const uint32_t bucket = log_->geometry().BucketOf(from);
      ASSERT_TRUE(index_->Collect(bucket, from, kLast, 100, &entries, &complete).ok());
      next = newest_.lower_bound(from);
      for (const IndexEntry& entry : entries) ASSERT_EQ(entry.key, (next++)->first);
    }
  }

  const uint32_t frame_count_;
  std::function<uint64_t()> limit_;  // see Index::Build, both
  std::function<uint64_t()> reads_;
  MemoryShare* share_ = nullptr;  // of the frames
  TempDir dir_{FastParent()};
  LogLines messages_;
  Options options_;
  std::map<uint64_t, uint32_t> newest_;  // key -> slot
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<l1::FrameCache> frames_;
  std::unique_ptr<Index> index_;
};

}  // namespace engine_race::test

#endif  // TEST_INDEX_PAGED_INDEX_FIXTURE_H_

// Views of a whole index over a real log.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/index/index.h"
#include "harness/load/fill_keys.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::KeyMap;
using test::TempDir;
using test::View;

constexpr uint64_t kLast = ~uint64_t{0};
constexpr uint64_t kFilled = 3000;

class IndexViewsTest : public ::testing::Test {
 protected:
  IndexViewsTest() {
    options_.bucket_count = 16;
    options_.file_count = 4;
    options_.bucket_capacity_records = 1 << 17;
    EXPECT_TRUE(harness::FillKeyLogs(options_, dir_.path(), kFilled, 1).ok());
    EXPECT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
    EXPECT_TRUE(Index::Build(log_.get(), options_, &index_).ok());
    for (uint32_t b = 0; b < options_.bucket_count; ++b) {
      std::vector<IndexEntry> entries;
      bool complete = false;
      EXPECT_TRUE(index_->Collect(b, 0, kLast, ~size_t{0}, &entries, &complete).ok());
      for (const IndexEntry& entry : entries) now_[entry.key] = entry.ref;
    }
    EXPECT_EQ(now_.size(), kFilled);
  }

  void Write(uint64_t key, bool tombstone) {
    const std::string value = test::ValueOf(key, 1);
    ASSERT_TRUE(log_->Append(key, tombstone ? nullptr : value.data()).ok());
    if (tombstone) {
      now_.erase(key);
    } else {
      ValueRef ref;
      ASSERT_TRUE(index_->Find(key, &ref).ok());
      now_[key] = ref;
    }
  }

  uint64_t SomeKey(std::mt19937_64* random) {
    const auto found = now_.lower_bound((*random)());
    return found == now_.end() ? now_.begin()->first : found->first;
  }

  // The first and last keys of random ranges, most of which span several buckets.
  void CheckKeys(uint64_t version, const KeyMap& shown, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 300; ++i) {
      uint64_t first = random() % 10 == 0 ? 0 : random();
      uint64_t last = random() % 3 == 0 ? kLast : random();
      if (random() % 4 == 0) last = first + (random() >> 6);
      if (random() % 4 == 0) first = SomeKey(&random);
      std::vector<uint64_t> keys(random() % 4 == 0 ? random() % 1000 : random() % 20);
      const std::vector<uint64_t> all = first <= last
                                            ? test::KeysOf(shown, first, last, kFilled * 2, true)
                                            : std::vector<uint64_t>();
      const size_t wanted = std::min(keys.size(), all.size());
      size_t count = 0;
      ASSERT_TRUE(index_->FirstKeys(first, last, version, keys, &count).ok());
      ASSERT_EQ(count, wanted);
      ASSERT_TRUE(
          std::equal(all.begin(), all.begin() + static_cast<ptrdiff_t>(wanted), keys.begin()));
      ASSERT_TRUE(index_->LastKeys(first, last, version, keys, &count).ok());
      ASSERT_EQ(count, wanted);
      ASSERT_TRUE(std::equal(all.end() - static_cast<ptrdiff_t>(wanted), all.end(), keys.begin()));
    }
    for (const auto& [key, ref] : shown) {
      ValueRef found;
      ASSERT_TRUE(index_->Find(key, &found, version).ok());
      ASSERT_TRUE(test::SameRef(found, ref));
    }
  }

  TempDir dir_;
  Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<Index> index_;
  KeyMap now_;
};

TEST_F(IndexViewsTest, KeysOverTheBordersOfBuckets) {
  ASSERT_NO_FATAL_FAILURE(CheckKeys(kLatestVersion, now_, 1));
  std::mt19937_64 random(2);
  std::vector<std::pair<View, KeyMap>> views;
  for (int round = 0; round < 4; ++round) {
    View view;
    ASSERT_TRUE(index_->views().Take(&view).ok());
    views.emplace_back(view, now_);
    // Only some of the buckets are written to, so that the others are still read without their
    // locks.
    const uint64_t half = round < 2 ? 1 : 0;
    for (int i = 0; i < 400; ++i) {
      const uint64_t key = random() % 2 == 0 ? random() : SomeKey(&random);
      const bool tombstone = random() % 3 == 0;
      ASSERT_NO_FATAL_FAILURE(Write(key >> half, tombstone));
    }
    for (const auto& [each, shown] : views) {
      ASSERT_NO_FATAL_FAILURE(CheckKeys(each.version, shown, static_cast<uint64_t>(round)));
    }
    ASSERT_NO_FATAL_FAILURE(CheckKeys(kLatestVersion, now_, 7));
  }
  EXPECT_GT(index_->pinned_bytes(), 0U);
  for (auto& [view, shown] : views) ViewRegistry::Release(&view);
  EXPECT_TRUE(test::Eventually([this] { return index_->pinned_bytes() == 0; }));
}

TEST_F(IndexViewsTest, ViewsThatOutliveTheIndex) {
  View first;
  View second;
  ASSERT_TRUE(index_->views().Take(&first).ok());
  std::mt19937_64 random(2);
  for (int i = 0; i < 3000; ++i) ASSERT_NO_FATAL_FAILURE(Write(SomeKey(&random), false));
  ASSERT_TRUE(index_->views().TakeAt(first.version, &second).ok());
  EXPECT_GT(index_->pinned_bytes(), 0U);
  EXPECT_GE(index_->memory_bytes(), index_->pinned_bytes());
  index_.reset();
  EXPECT_TRUE(first.registry->closed());
  ViewRegistry::Release(&first);
  ViewRegistry::Release(&second);
}

}  // namespace
}  // namespace engine_race

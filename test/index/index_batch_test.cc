// Lookups in batches: their windows lead to the records that single lookups find, in runs of every
// shape, in buckets of one run and of several, and after a bucket has changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine_race/base/key_scan.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/index.h"
#include "harness/load/fill_keys.h"
#include "test/index/index_test_util.h"
#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::MakeRecords;
using test::Model;
using test::Order;
using test::Shape;
using test::TempDir;

Options LargeBucket() {
  Options options;
  options.bucket_count = 1;
  options.file_count = 1;
  options.bucket_capacity_records = 1 << 20;
  options.build_thread_count = 2;
  return options;
}

// Each of `begins` is the rank of a key among all keys, less the rank of its window in its run. If
// the key lies in its window, that is less than kScanKeyCount above the rank at which its run
// begins. Counts the numbers that have many others so near, which are those of such keys.
size_t CountAlike(std::vector<int64_t> begins) {
  std::sort(begins.begin(), begins.end());
  size_t count = 0;
  for (size_t i = 0; i < begins.size();) {
    size_t end = i;
    while (end < begins.size() && begins[end] < begins[i] + kScanKeyCount) ++end;
    if (end - i > begins.size() / 100) count += end - i;
    i = end;
  }
  return count;
}

// A store of one bucket that holds `records` without values, and its index.
class IndexBatchTest : public testing::Test {
 protected:
  void Make(const std::vector<KeyRecord>& records) {
    index_.reset();
    log_.reset();
    dir_ = std::make_unique<TempDir>(test::FastParent());
    const auto record_of = [&](uint32_t, uint32_t slot) { return records[slot]; };
    Status status = harness::WriteKeyLogs(LargeBucket(), dir_->path(), {records.size()}, record_of);
    ASSERT_TRUE(status.ok()) << status.ToString();
    status = BucketLog::Open(LargeBucket(), dir_->path(), &log_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    status = Index::Build(log_.get(), LargeBucket(), &index_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    model_ = Model(records);
    rank_of_.clear();
    for (const auto& [key, record] : model_.newest()) {
      rank_of_.emplace(key, static_cast<int64_t>(rank_of_.size()));
    }
  }

  // The model's keys and keys beside them, shuffled.
  std::vector<uint64_t> Keys() const {
    std::vector<uint64_t> keys;
    for (const auto& [key, record] : model_.newest()) {
      keys.push_back(key);
      if (key % 8 == 0) keys.push_back(key + 1);
    }
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(3));
    return keys;
  }

  void ExpectFinds(uint64_t key, const RunWindow& window) const {
    const auto at = model_.newest().find(key);
    const bool is_there = at != model_.newest().end() && !at->second.tombstone;
    ValueRef ref;
    BlockLookup lookup;
    {
      const l1::EpochManager::Guard guard(index_->epochs());
      ASSERT_EQ(index_->FindHot(key, &ref, &lookup, window).ok(), is_there) << key;
    }
    if (is_there) {
      ASSERT_EQ(ref.slot(), at->second.slot) << key;
    }
    ref = ValueRef();
    ASSERT_EQ(index_->Find(key, &ref, &lookup, window).ok(), is_there) << key;
    if (is_there) {
      ASSERT_EQ(ref.slot(), at->second.slot) << key;
    }
  }

  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<Index> index_;
  Model model_;
  std::unordered_map<uint64_t, int64_t> rank_of_;
};

TEST_F(IndexBatchTest, FindWhatTheBucketHolds) {
  const uint32_t count = BucketIndex::kSplitKeys * 2 + 1024;
  uint64_t number = 0;
  for (const Shape shape : test::AllShapes()) {
    if (!test::IsInPart(number++, test::Sized(1, 3))) continue;
    SCOPED_TRACE(test::NameOf(shape));
    ASSERT_NO_FATAL_FAILURE(Make(MakeRecords(shape, count, Order::kAlong)));
    const std::vector<uint64_t> keys = Keys();
    std::mt19937_64 random(5);
    size_t record_count = 0;
    std::vector<int64_t> begins;
    // Some batches are empty, some have more keys than take their steps together.
    for (size_t begin = 0; begin < keys.size();) {
      const size_t batch = std::min<size_t>(keys.size() - begin, random() % 150);
      const std::span<const uint64_t> some = std::span(keys).subspan(begin, batch);
      std::vector<RunWindow> windows(batch);
      index_->Prefetch(some, windows);
      for (size_t i = 0; i < batch; ++i) {
        ASSERT_NO_FATAL_FAILURE(ExpectFinds(some[i], windows[i]));
        if (model_.newest().count(some[i]) == 0) continue;
        ++record_count;
        ASSERT_TRUE(windows[i].is_flat() || windows[i].block == 0);
        if (windows[i].block != 0) begins.push_back(rank_of_.at(some[i]) - windows[i].place);
      }
      begin += batch;
    }
    // Tombstones are in no run. Elsewhere hardly a key lies outside its window.
    if (shape != Shape::kTombstones) {
      EXPECT_GE(CountAlike(begins), record_count - record_count / 20);
    }
  }
}

// Lookups ignore a window once its bucket has a new record, even if the run's memory is gone.
TEST_F(IndexBatchTest, OldWindowsFindNewRecords) {
  const uint32_t count = BucketIndex::kSplitKeys * 2 + 1024;
  ASSERT_NO_FATAL_FAILURE(Make(MakeRecords(Shape::kUniform, count, Order::kAlong)));
  std::vector<uint64_t> keys = Keys();
  keys.resize(test::Sized(40000, 8000));
  std::vector<RunWindow> windows(keys.size());
  index_->Prefetch(keys, windows);
  const std::string value = test::ValueOf(1, 1);
  KeyRecord record;
  for (size_t i = 0; i < keys.size(); ++i) {
    record.key = keys[i];
    record.slot = count + static_cast<uint32_t>(i);
    record.sequence = record.slot;
    ASSERT_TRUE(log_->Append(record.key, value.data()).ok());
    model_.Add(record);
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(keys[i], windows[i]));
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(keys[i / 2], windows[i / 2]));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(keys[i], windows[i]));
  }
}

}  // namespace
}  // namespace engine_race

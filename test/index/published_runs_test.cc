// Runs that readers find without a lock: that they are kept for readers inside the epoch, that a
// merge publishes them again, and that a bucket may have flat and paged ones.
#include "engine_race/index/published_runs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/index/paging.h"
#include "engine_race/l1/frame_cache.h"
#include "test/index/views_test_util.h"
#include "test/l1/extent_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kRecords = 20000;
constexpr uint64_t kTopKey = ~uint64_t{0};

// A bucket with keys 0, 1, 2 ... in the slots of the same numbers.
class PublishedRunsTest : public ::testing::Test {
 protected:
  PublishedRunsTest() {
    std::vector<KeyRecord> records;
    for (uint32_t i = 0; i < kRecords; ++i) records.push_back(RecordInSlot(i, i));
    buckets_.Install(records);
  }
  BucketIndex& bucket() { return buckets_.bucket(); }
  // Overwrites keys, each by a record in the next slot.
  void Write(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i, ++slot_) buckets_.Write(slot_ % kRecords, slot_);
  }
  void MergeAll() {
    ASSERT_TRUE(bucket().Claim());
    const Status merged =
        bucket().MergeFlat(/*only_crossed=*/false, [](FunctionRef<void()> work) { work(); });
    bucket().Release();
    ASSERT_TRUE(merged.ok()) << merged.ToString();
  }

  WatchedBuckets buckets_{1};
  uint32_t slot_ = kRecords;
};

TEST_F(PublishedRunsTest, ReadersInsideKeepRunsThatWereMerged) {
  std::optional<l1::EpochManager::Guard> guard(buckets_.shared().epochs());
  const PublishedRuns* const runs = bucket().published();
  ASSERT_NE(runs, nullptr);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(Write(kRecords));
    ASSERT_NO_FATAL_FAILURE(MergeAll());
    ASSERT_NE(bucket().published(), runs);
  }
  ValueRef ref;
  for (uint64_t key = 0; key < kRecords; ++key) {
    ASSERT_TRUE(runs->Find(key, {}, nullptr, &ref)) << key;
    ASSERT_EQ(ref.slot(), key);
    ASSERT_EQ(bucket().Find(key, &ref), Code::kOk);
    ASSERT_EQ(ref.slot(), 3 * kRecords + key);
  }
}

// So many merges that runs are freed meanwhile.
TEST_F(PublishedRunsTest, ReadersBesideMergesFindRunsThatAreWhole) {
  std::atomic<bool> is_done{false};
  std::vector<std::thread> readers;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    readers.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      while (!is_done.load(std::memory_order_relaxed)) {
        const l1::EpochManager::Guard guard(buckets_.shared().epochs());
        const PublishedRuns* const runs = bucket().published();
        if (runs == nullptr) continue;
        for (int i = 0; i < 20; ++i) {
          const uint64_t key = random() % kRecords;
          ValueRef ref;
          ASSERT_TRUE(runs->Find(key, {}, nullptr, &ref)) << key;
          ASSERT_EQ(ref.slot() % kRecords, key);
        }
      }
    });
  }
  for (int i = 0; i < 12; ++i) {
    Write(kRecords);
    MergeAll();
    ASSERT_NE(bucket().published(), nullptr);
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
  buckets_.shared().limbo().FreeSafe();
  EXPECT_EQ(buckets_.shared().limbo().bytes(), 0u);
}

TEST_F(PublishedRunsTest, AMergePublishesFlatRunsAgain) {
  for (int i = 1; i <= 3; ++i) {
    ASSERT_NE(bucket().published(), nullptr);
    ASSERT_NO_FATAL_FAILURE(Write(kRecords));
    ASSERT_EQ(bucket().published(), nullptr) << "older records would be found";
    ASSERT_NO_FATAL_FAILURE(MergeAll());
    const PublishedRuns* const runs = bucket().published();
    ASSERT_NE(runs, nullptr);
    ValueRef ref;
    for (uint64_t key = 0; key < kRecords; ++key) {
      ASSERT_TRUE(runs->Find(key, {}, nullptr, &ref)) << key;
      ASSERT_EQ(ref.slot(), i * kRecords + key);
    }
  }
}

// A window of one run may be used for another one that has fewer keys.
TEST_F(PublishedRunsTest, AWindowBeyondTheRunFindsNothingWrong) {
  const PublishedRuns* const runs = bucket().published();
  ASSERT_NE(runs, nullptr);
  ValueRef ref;
  for (const uint32_t place : {0U, kRecords - 1, kRecords, 2 * kRecords, ~uint32_t{0}}) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{kRecords - 1}, uint64_t{kRecords}, kTopKey}) {
      // The padding behind the last key has this one.
      for (const uint64_t wanted : {key, kTopKey >> 1}) {
        if (runs->FindNear(wanted, {RunWindow::kFlat, place}, &ref)) {
          EXPECT_EQ(ref.slot(), wanted);
        }
      }
    }
  }
}

// A bucket with a paged run of the keys 0 to 599, all blocks of which are in frames, and with a
// flat one of the keys 1000 to 1999. The slots of both begin at 0.
class MixedRunsTest : public ::testing::Test {
 protected:
  MixedRunsTest() {
    EXPECT_TRUE(l1::FrameCache::Create(l1::FrameCache::BytesFor(16), nullptr, &frames_).ok());
    std::unique_ptr<l1::ExtentStore> store;
    EXPECT_TRUE(
        l1::ExtentStore::Open(dir_.fd(), kExtentStoreId, 0600, /*writable=*/true, &store).ok());
    EXPECT_TRUE(store->Reserve({}).ok());
    const auto no_limit = [] { return ~uint64_t{0}; };
    paging_ = std::make_unique<Paging>(frames_.get(), std::move(store), no_limit,
                                       /*max_flat_bytes=*/~uint64_t{0}, part_bytes_, limbo_);
    buckets_ = std::make_unique<WatchedBuckets>(1);
    buckets_->shared().set_paging(paging_.get());
    BucketIndex::Row row = RowBetween(0, 600);
    l1::ExtentImage image;
    EXPECT_TRUE(l1::ExtentImage::Create(&image).ok());
    EXPECT_TRUE(
        paging_->Write(row[0]->run, FrameSlots(), /*births=*/0, &image, &row[0]->extent).ok());
    row[0]->run = SortedRun();
    const l1::ExtentId id = row[0]->extent->id;
    row.push_back(std::move(RowBetween(1000, 2000)[0]));
    EXPECT_TRUE(buckets_->bucket().Install(std::move(row), /*damaged=*/false).ok());
    for (uint32_t block = 0; block <= format::IndexBlocksOf(600); ++block) {
      EXPECT_TRUE(paging_->store().ReadBlocks(id, block, 1, image.data()).ok());
      paging_->blocks().Offer(id, block, image.data(), [&](uint32_t frame) {
        return buckets_->bucket().SwizzleBlock(/*key=*/0, id, block, frame);
      });
    }
  }
  static BucketIndex::Row RowBetween(uint32_t first, uint32_t end) {
    std::vector<KeyRecord> records;
    for (uint32_t i = first; i < end; ++i) records.push_back(RecordInSlot(i, i - first));
    return RowOf(records, BucketIndex::kSplitKeys);
  }

  const OpenDir dir_;
  std::unique_ptr<l1::FrameCache> frames_;
  ByteCount part_bytes_;
  l1::EpochManager epochs_;
  l1::Limbo limbo_{epochs_};
  std::unique_ptr<Paging> paging_;
  std::unique_ptr<WatchedBuckets> buckets_;
};

TEST_F(MixedRunsTest, FlatAndPagedRunsOfABucketAreFound) {
  const PublishedRuns* const runs = buckets_->bucket().published();
  ASSERT_NE(runs, nullptr);
  for (uint64_t key = 0; key < 2100; ++key) {
    const bool is_paged = key < 600;
    const bool is_flat = key >= 1000 && key < 2000;
    ValueRef ref;
    BlockLookup lookup;
    ASSERT_EQ(runs->Find(key, {}, &lookup, &ref), is_paged || is_flat) << key;
    ASSERT_EQ(lookup.TakeHit(), is_paged) << key;
    if (is_paged || is_flat) {
      ASSERT_EQ(ref.slot(), key % 1000);
    }
    ASSERT_FALSE(runs->FindNear(key, {}, &ref)) << "the first run is paged";
    ASSERT_EQ(
        runs->FindNear(key, {RunWindow::kFlat + 1, key < 1000 ? 0 : uint32_t(key - 1000)}, &ref),
        is_flat)
        << key;
    // No window leads a lookup astray.
    for (const RunWindow& window :
         {RunWindow{RunWindow::kFlat, 100}, RunWindow{1, 100}, RunWindow{RunWindow::kFlat + 1, 100},
          RunWindow{RunWindow::kFlat + 2, 100}}) {
      if (runs->FindNear(key, window, &ref)) {
        ASSERT_TRUE(is_flat) << key;
        ASSERT_EQ(ref.slot(), key % 1000);
      }
      ASSERT_EQ(runs->Find(key, window, nullptr, &ref), is_paged || is_flat) << key;
      if (is_paged || is_flat) {
        ASSERT_EQ(ref.slot(), key % 1000);
      }
    }
  }
  std::vector<uint64_t> keys(10);
  size_t count = 0;
  EXPECT_FALSE(runs->FirstKeys(5, kTopKey, keys, &count)) << "of a paged run";
  ASSERT_TRUE(runs->FirstKeys(1500, kTopKey, keys, &count));
  ASSERT_EQ(count, keys.size());
  EXPECT_EQ(keys.front(), 1500u);
  EXPECT_FALSE(runs->FirstKeys(1995, kTopKey, keys, &count)) << "there may be another run";
  ASSERT_TRUE(runs->LastKeys(0, 1509, keys, &count));
  EXPECT_EQ(keys.back(), 1509u);
  EXPECT_FALSE(runs->LastKeys(0, 1004, keys, &count)) << "it reaches into the run before";
}

}  // namespace
}  // namespace engine_race::test

// An index counts its bytes where they change. The count is compared with a walk over all its
// memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/index/index.h"
#include "harness/load/fill_keys.h"
#include "test/eventually.h"
#include "test/index/refused_memory.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::View;
using test::WatchedBuckets;

// Writes of every shape to buckets that split and merge early, with and without views.
TEST(IndexMemoryTest, TheCountOfBucketsIsWhatAWalkFinds) {
  constexpr size_t kBuckets = 4;
  constexpr uint64_t kKeySpace = 3000;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    WatchedBuckets buckets(kBuckets, /*split_keys=*/200);
    std::mt19937_64 random(seed);
    uint32_t slot = 0;
    // Noted before the build hands over, then installed; one bucket begins empty.
    for (size_t b = 0; b < kBuckets; ++b) {
      for (uint64_t i = 0; i < 100 * b; ++i) buckets.Write(random() % kKeySpace, slot++, false, b);
      std::vector<KeyRecord> records;
      for (uint64_t key = 0; b != 1 && key < kKeySpace; key += 1 + random() % 9) {
        records.push_back(test::RecordInSlot(key, slot++));
      }
      buckets.Install(records, b);
    }
    const auto expect_same = [&](const char* when) {
      // The sweep that a release may have requested, but not each time.
      if (random() % 3 == 0) buckets.shared().Sweep(test::kNever);
      uint64_t walked = 0;
      for (size_t b = 0; b < kBuckets; ++b) walked += buckets.bucket(b).memory_bytes();
      ASSERT_EQ(walked, buckets.shared().part_bytes().bytes() + buckets.shared().bytes() +
                            kBuckets * sizeof(BucketIndex))
          << when << ", seed " << seed;
    };
    expect_same("installed");
    std::vector<View> views;
    for (int step = 0; step < 300; ++step) {
      const uint64_t what = random() % 10;
      if (what == 8 && views.size() < 4) {
        views.push_back(buckets.Take());
      } else if (what == 9 && !views.empty()) {
        std::swap(views[random() % views.size()], views.back());
        buckets.views().Release(&views.back());
        views.pop_back();
      } else {
        const size_t bucket = random() % kBuckets;
        const bool deletes = what == 0;
        const uint64_t base = random() % kKeySpace;
        for (uint64_t i = 0; i < 60; ++i) {
          const uint64_t key = what < 3 ? base + i : random() % kKeySpace;
          buckets.Write(key, slot++, deletes, bucket);
        }
      }
      expect_same("after a step");
    }
    for (View& view : views) buckets.views().Release(&view);
    expect_same("without views");
    for (size_t b = 0; b < kBuckets; ++b) buckets.bucket(b).Forget();
    expect_same("forgotten");
    EXPECT_EQ(buckets.shared().part_bytes().bytes(), 0u);
  }
}

// A write for which memory is refused changes nothing, or changes the count with it.
TEST(IndexMemoryTest, WhatIsRefusedIsNotCounted) {
  for (uint64_t passed = 0; passed < 40; ++passed) {
    WatchedBuckets buckets(1, /*split_keys=*/50);
    buckets.Install({});
    for (uint32_t slot = 0; slot < 400; ++slot) {
      {
        const test::RefuseMemory refuse(passed);
        (void)buckets.bucket().Prepare();
      }
      buckets.Write(slot * 7 % 1000, slot);
    }
    const uint64_t counted = buckets.shared().part_bytes().bytes() + sizeof(BucketIndex);
    EXPECT_EQ(counted, buckets.bucket().memory_bytes()) << passed;
  }
}

Options SixteenBuckets() {
  Options options;
  options.bucket_count = 16;
  options.file_count = 4;
  options.bucket_capacity_records = 1 << 17;
  return options;
}

// A whole index: built from logs, then written to by several threads beside a view.
TEST(IndexMemoryTest, TheCountOfAnIndexIsWhatAWalkFinds) {
  const Options options = SixteenBuckets();
  const test::TempDir dir(test::FastParent());
  ASSERT_TRUE(harness::FillKeyLogs(options, dir.path(), 20000, 1).ok());
  std::unique_ptr<BucketLog> log;
  ASSERT_TRUE(BucketLog::Open(options, dir.path(), &log).ok());
  std::unique_ptr<Index> index;
  ASSERT_TRUE(Index::Build(log.get(), options, &index).ok());
  EXPECT_EQ(index->memory_bytes(), index->WalkMemoryBytes());
  const uint64_t built_bytes = index->memory_bytes();
  View view;
  ASSERT_TRUE(index->views().Take(&view).ok());
  const std::string value(kValueBytes, 'v');
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 3000; ++i) {
        // Half of them within one bucket.
        const uint64_t key = i % 2 == 0 ? random() : random() >> 12;
        ASSERT_TRUE(log->Append(key, i % 5 == 0 ? nullptr : value.data()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(index->memory_bytes(), built_bytes);
  EXPECT_EQ(index->memory_bytes(), index->WalkMemoryBytes());
  index->views().Release(&view);
  EXPECT_TRUE(test::Eventually([&] { return index->pinned_bytes() == 0; }));
  EXPECT_EQ(index->memory_bytes(), index->WalkMemoryBytes());
}

// The keeper may be in the middle of a sweep, or before it.
TEST(IndexMemoryTest, AnIndexEndsWhileItIsSwept) {
  const Options options = SixteenBuckets();
  const test::TempDir dir(test::FastParent());
  ASSERT_TRUE(harness::FillKeyLogs(options, dir.path(), 20000, 1).ok());
  const std::string value(kValueBytes, 'v');
  for (uint64_t round = 0; round < test::Sized(20, 5); ++round) {
    std::unique_ptr<BucketLog> log;
    ASSERT_TRUE(BucketLog::Open(options, dir.path(), &log).ok());
    std::unique_ptr<Index> index;
    ASSERT_TRUE(Index::Build(log.get(), options, &index).ok());
    View view;
    ASSERT_TRUE(index->views().Take(&view).ok());
    std::mt19937_64 random(round);
    for (int i = 0; i < 5000; ++i) ASSERT_TRUE(log->Append(random(), value.data()).ok());
    EXPECT_GT(index->pinned_bytes(), 0U);
    index->views().Release(&view);
    for (uint64_t i = 0; i < round * 20; ++i) std::this_thread::yield();
    index.reset();
  }
}

}  // namespace
}  // namespace engine_race

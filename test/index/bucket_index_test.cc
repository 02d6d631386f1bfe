#include "engine_race/index/bucket_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::ExpectFinds;
using test::ExpectSameEntries;
using test::MakeRecords;
using test::Model;
using test::Order;
using test::Shape;

constexpr size_t kSplitKeys = 500;

BucketIndex::Row RowOf(const std::vector<KeyRecord>& records) {
  return test::RowOf(records, kSplitKeys);
}

void Append(BucketIndex* index, const KeyRecord& record) {
  ASSERT_TRUE(index->Prepare().ok());
  index->OnAppend(record);
}

std::vector<IndexEntry> CollectAll(const BucketIndex& index) {
  std::vector<IndexEntry> entries;
  bool complete = false;
  EXPECT_EQ(index.Collect(0, ~uint64_t{0}, ~size_t{0}, &entries, &complete), Code::kOk);
  EXPECT_TRUE(complete);
  return entries;
}

// Installs some records and appends the others one by one, for every shape.
TEST(BucketIndexTest, AppendsMergeAndSplitInEveryShape) {
  for (const Shape shape : test::AllShapes()) {
    for (const uint32_t installed : {0U, 10U, 3000U}) {
      SCOPED_TRACE(test::NameOf(shape) + ", " + std::to_string(installed) + " installed");
      const std::vector<KeyRecord> records = MakeRecords(shape, 10000, Order::kAlong);
      const std::vector<KeyRecord> first(records.begin(), records.begin() + installed);
      BucketIndex index;
      index.set_split_keys(kSplitKeys);
      index.Expect();
      ASSERT_TRUE(index.Install(RowOf(first), false).ok());
      Model model(first);
      for (size_t i = installed; i < records.size(); ++i) {
        Append(&index, records[i]);
        model.Add(records[i]);
        ValueRef ref;
        const Code code = index.Find(records[i].key, &ref);
        ASSERT_EQ(code, records[i].tombstone ? Code::kNotFound : Code::kOk);
        if (i % 2500 == 0) ExpectFinds(index, model);
      }
      ExpectFinds(index, model);
      ExpectSameEntries(CollectAll(index), model.Entries());
    }
  }
}

TEST(BucketIndexTest, DeletingEverythingLeavesAUsableBucket) {
  BucketIndex index;
  index.set_split_keys(kSplitKeys);
  index.Expect();
  ASSERT_TRUE(index.Install({}, false).ok());
  uint32_t slot = 0;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t key = 0; key < 3000; ++key) {
      Append(&index, test::RecordInSlot(key, slot));
      ++slot;
    }
    EXPECT_EQ(CollectAll(index).size(), 3000U);
    for (uint64_t key = 0; key < 3000; ++key) {
      Append(&index, test::RecordInSlot(key, slot, true));
      ++slot;
    }
    EXPECT_TRUE(CollectAll(index).empty());
    ValueRef ref;
    EXPECT_EQ(index.Find(5, &ref), Code::kNotFound);
  }
}

TEST(BucketIndexTest, EmptyBucketFindsNothing) {
  BucketIndex index;
  ValueRef ref;
  EXPECT_EQ(index.Find(0, &ref), Code::kNotFound);
  index.Expect();
  ASSERT_TRUE(index.Install({}, false).ok());
  EXPECT_EQ(index.Find(~uint64_t{0}, &ref), Code::kNotFound);
  EXPECT_TRUE(CollectAll(index).empty());
  EXPECT_EQ(index.EstimateCount(0, ~uint64_t{0}), 0U);
}

TEST(BucketIndexTest, RecordsThatComeBeforeInstallAreThere) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kTombstones, 6000, Order::kAlong);
  const std::vector<KeyRecord> first(records.begin(), records.begin() + 2000);
  BucketIndex index;
  index.set_split_keys(kSplitKeys);
  index.Expect();
  Model model(first);
  for (size_t i = 2000; i < records.size(); ++i) {
    Append(&index, records[i]);
    model.Add(records[i]);
  }
  ASSERT_TRUE(index.Install(RowOf(first), false).ok());
  ExpectFinds(index, model);
  ExpectSameEntries(CollectAll(index), model.Entries());
}

// Prepare comes before Install, and its record after it.
TEST(BucketIndexTest, RoomPromisedBeforeInstallIsKept) {
  BucketIndex index;
  index.Expect();
  ASSERT_TRUE(index.Prepare().ok());
  ASSERT_TRUE(index.Install(RowOf(MakeRecords(Shape::kUniform, 100, Order::kAlong)), false).ok());
  index.OnAppend(test::RecordInSlot(5, 100));
  ValueRef ref;
  EXPECT_EQ(index.Find(5, &ref), Code::kOk);
}

TEST(BucketIndexTest, CollectKeepsToItsBounds) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kTombstones, 5000, Order::kAlong);
  const std::vector<KeyRecord> first(records.begin(), records.begin() + 4900);
  BucketIndex index;
  index.set_split_keys(100);
  index.Expect();
  ASSERT_TRUE(index.Install(RowOf(first), false).ok());
  Model model(first);
  for (size_t i = 4900; i < records.size(); ++i) {
    Append(&index, records[i]);
    model.Add(records[i]);
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const uint64_t a = random() % 1100;
    const uint64_t b = random() % 1100;
    const size_t limit = random() % 4 == 0 ? random() % 50 : 5000;
    std::vector<IndexEntry> wanted = model.Entries(a, b);
    if (a > b) wanted.clear();
    const bool fits = wanted.size() <= limit;
    if (!fits) wanted.resize(limit);
    std::vector<IndexEntry> got;
    bool complete = false;
    ASSERT_EQ(index.Collect(a, b, limit, &got, &complete), Code::kOk);
    ExpectSameEntries(got, wanted);
    EXPECT_EQ(complete, fits);
  }
}

TEST(BucketIndexTest, CollectGoesOnWhereItStopped) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 3000, Order::kAlong);
  BucketIndex index;
  index.Expect();
  ASSERT_TRUE(index.Install(RowOf(records), false).ok());
  std::vector<IndexEntry> all;
  bool complete = false;
  uint64_t from = 0;
  while (!complete) {
    std::vector<IndexEntry> entries;
    ASSERT_EQ(index.Collect(from, ~uint64_t{0}, 77, &entries, &complete), Code::kOk);
    if (!entries.empty()) from = entries.back().key + 1;
    all.insert(all.end(), entries.begin(), entries.end());
  }
  ExpectSameEntries(all, Model(records).Entries());
}

TEST(BucketIndexTest, EstimateIsExactWithoutADelta) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 3000, Order::kAlong);
  BucketIndex index;
  index.Expect();
  ASSERT_TRUE(index.Install(RowOf(records), false).ok());
  const Model model(records);
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    uint64_t a = random();
    uint64_t b = random();
    if (a > b) std::swap(a, b);
    EXPECT_EQ(index.EstimateCount(a, b), model.Entries(a, b).size());
  }
  EXPECT_EQ(index.EstimateCount(0, ~uint64_t{0}), 3000U);
  EXPECT_EQ(index.EstimateCount(5, 4), 0U);
}

TEST(BucketIndexTest, DamagedBucketVouchesOnlyForWhatItHolds) {
  BucketIndex index;
  index.set_split_keys(kSplitKeys);
  index.Expect();
  const std::vector<KeyRecord> provable = MakeRecords(Shape::kSequential, 100, Order::kAlong);
  ASSERT_TRUE(index.Install(RowOf(provable), true).ok());
  ValueRef ref;
  EXPECT_EQ(index.Find(1000, &ref), Code::kOk);
  EXPECT_EQ(index.Find(5, &ref), Code::kCorruption);
  // New records are known to be the newest, also tombstones and also after merges.
  uint32_t slot = 1000;
  for (uint64_t key = 0; key < 2000; ++key) {
    Append(&index, {key, slot, slot, 0, key % 2 == 0});
    ++slot;
  }
  for (uint64_t key = 0; key < 2000; ++key) {
    EXPECT_EQ(index.Find(key, &ref), key % 2 == 0 ? Code::kNotFound : Code::kOk) << key;
  }
  EXPECT_EQ(index.Find(5000, &ref), Code::kCorruption);
  std::vector<IndexEntry> entries;
  bool complete = false;
  EXPECT_EQ(index.Collect(0, 10, 100, &entries, &complete), Code::kCorruption);
}

TEST(BucketIndexTest, UnreadableBucketIsCorrupt) {
  BucketIndex index;
  index.MarkUnreadable();
  ValueRef ref;
  EXPECT_EQ(index.Find(0, &ref), Code::kCorruption);
}

TEST(BucketIndexTest, ForgottenBucketIsEmptyAndCanBeBuiltAgain) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kSequential, 1000, Order::kAlong);
  BucketIndex index;
  for (int round = 0; round < 2; ++round) {
    index.Expect();
    ASSERT_TRUE(index.Install(RowOf(records), false).ok());
    EXPECT_EQ(CollectAll(index).size(), 1000U);
    index.Forget();
    EXPECT_TRUE(CollectAll(index).empty());
  }
}

TEST(BucketIndexTest, ALostBucketIsUnreadAtOnceAndRestsIfToldTo) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kSequential, 1000, Order::kAlong);
  ViewRegistry* views = nullptr;
  ASSERT_TRUE(ViewRegistry::Create(&views).ok());
  const numa::StorePlacement placement;
  BucketShared shared(placement.memory());
  shared.Watch(views);
  {
    BucketIndex index;
    index.set_shared(&shared);
    for (const bool rests : {false, true}) {
      EXPECT_TRUE(index.may_be_paged());
      index.Expect();
      ASSERT_TRUE(index.Install(RowOf(records), false).ok());
      index.Admit();
      ValueRef ref;
      ASSERT_EQ(index.Find(records[5].key, &ref), Code::kOk);
      // Readers must look at the flags once views may be older than the attempt that read it.
      ASSERT_EQ(index.published() != nullptr, !rests);
      index.HideLost();
      // Records may still come in here, and readers must not find older ones.
      EXPECT_EQ(index.Find(records[5].key, &ref), Code::kIOError);
      EXPECT_EQ(index.published(), nullptr);
      index.Lose(rests);
      EXPECT_EQ(index.may_be_paged(), !rests);
    }
  }
  views->Close();
}

TEST(BucketIndexTest, MemoryIsCounted) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kSequential, 20000, Order::kAlong);
  BucketIndex index;
  index.Expect();
  const uint64_t empty_bytes = index.memory_bytes();
  ASSERT_TRUE(index.Install(RowOf(records), false).ok());
  EXPECT_GT(index.memory_bytes(), empty_bytes + 20000 * 16);
  EXPECT_LT(index.memory_bytes(), empty_bytes + 20000 * 19);
}

// Readers see every acknowledged record while parts are merged and split under them.
TEST(BucketIndexTest, ReadersBesideAWriter) {
  const auto count = static_cast<uint32_t>(test::Sized(60000, 8000));
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, count, Order::kAlong);
  BucketIndex index;
  index.set_split_keys(kSplitKeys);
  index.Expect();
  std::atomic<uint32_t> acknowledged{0};
  std::atomic<bool> installed{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t reader = 0; reader < 3; ++reader) {
    threads.emplace_back([&, reader] {
      std::mt19937_64 random(reader);
      while (!installed) std::this_thread::yield();
      while (acknowledged < count) {
        const uint32_t known = acknowledged;
        if (known == 0) continue;
        const KeyRecord& record = records[random() % known];
        ValueRef ref;
        if (index.Find(record.key, &ref) != Code::kOk || ref.slot() != record.slot) ++wrong;
        std::vector<IndexEntry> entries;
        bool complete = false;
        if (index.Collect(record.key, ~uint64_t{0}, 20, &entries, &complete) != Code::kOk ||
            entries.empty() || entries[0].key != record.key) {
          ++wrong;
        }
        if (index.EstimateCount(0, ~uint64_t{0}) < known) ++wrong;
      }
    });
  }
  threads.emplace_back([&] {
    ASSERT_TRUE(index.Install({}, false).ok());
    installed = true;
  });
  for (const KeyRecord& record : records) {
    Append(&index, record);
    ++acknowledged;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  ExpectSameEntries(CollectAll(index), Model(records).Entries());
}

// Lookups that began without the lock go on while their run is merged. They must not find less than
// before.
TEST(BucketIndexTest, LookupsWithoutTheLockSurviveTheFirstMerge) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 20000, Order::kAlong);
  for (int round = 0; round < static_cast<int>(test::Sized(60, 6)); ++round) {
    test::WatchedBuckets buckets(1);
    ASSERT_NO_FATAL_FAILURE(buckets.Install(records));
    BucketIndex& index = buckets.bucket();
    ASSERT_NE(index.published(), nullptr);
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> wrong{0};
    std::atomic<uint64_t> lookups{0};
    std::vector<std::thread> readers;
    for (uint64_t reader = 0; reader < 2; ++reader) {
      readers.emplace_back([&, reader] {
        std::mt19937_64 random(reader);
        while (!stop) {
          const KeyRecord& record = records[random() % records.size()];
          ValueRef ref;
          if (index.Find(record.key, &ref) != Code::kOk || ref.slot() != record.slot) ++wrong;
          ++lookups;
        }
      });
    }
    while (lookups < 100) std::this_thread::yield();
    for (uint32_t i = 0; i < 1000; ++i) Append(&index, test::RecordInSlot(i, 20000 + i));
    ValueRef ref;
    EXPECT_EQ(index.Find(999, &ref), Code::kOk);
    stop = true;
    for (std::thread& reader : readers) reader.join();
    ASSERT_EQ(wrong, 0U);
  }
}

}  // namespace
}  // namespace engine_race

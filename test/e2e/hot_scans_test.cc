// Ranges, iterators and snapshots beside the values that are kept in memory: what they take from
// there, and what they leave.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/e2e/hot_values_fixture.h"

namespace engine_race::test {
namespace {

class HotScansTest : public HotValuesTest {
 protected:
  // Keys [begin, end) are all that a walk shows.
  static void ExpectAll(uint64_t begin, uint64_t end, const std::vector<std::string>& keys,
                        const std::vector<std::string>& values) {
    ASSERT_EQ(keys.size(), end - begin);
    for (uint64_t n = begin; n < end; ++n) {
      EXPECT_EQ(keys[n - begin], KeyOf(NthKey(n)));
      EXPECT_EQ(values[n - begin], ValueOf(NthKey(n), 1)) << n;
    }
  }
  void ExpectRange(const Snapshot* snapshot, uint64_t begin, uint64_t end) {
    std::vector<std::string> keys;
    std::vector<std::string> values;
    const auto visit = [&](std::string_view key, std::string_view value) {
      keys.emplace_back(key);
      values.emplace_back(value);
    };
    const std::string lower = KeyOf(NthKey(begin));
    const std::string upper = KeyOf(NthKey(end));
    const Status status = snapshot == nullptr ? store_->Range(lower, upper, visit)
                                              : store_->Range(*snapshot, lower, upper, visit);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ExpectAll(begin, end, keys, values);
  }
  // By an iterator that reads so many values at once.
  void ExpectWalk(uint32_t prefetch_records, bool backwards, uint64_t begin, uint64_t end) {
    IteratorOptions options;
    options.prefetch_records = prefetch_records;
    Iterator iterator;
    ASSERT_TRUE(store_->NewIterator(options, &iterator).ok());
    const std::string first = KeyOf(NthKey(backwards ? end - 1 : begin));
    backwards ? iterator.SeekForPrev(first) : iterator.Seek(first);
    for (uint64_t i = 0; i < end - begin; ++i) {
      const uint64_t n = backwards ? end - 1 - i : begin + i;
      ASSERT_TRUE(iterator.Valid()) << iterator.status().ToString();
      EXPECT_EQ(iterator.value(), ValueOf(NthKey(n), 1)) << n;
      backwards ? iterator.Prev() : iterator.Next();
    }
  }
  void ReadAt(const Snapshot& snapshot, uint64_t begin, uint64_t end) {
    std::string value;
    for (uint64_t n = begin; n < end; ++n) {
      ASSERT_TRUE(store_->Read(snapshot, KeyOf(NthKey(n)), &value).ok()) << n;
      EXPECT_EQ(value, ValueOf(NthKey(n), 1));
    }
  }
};

TEST_F(HotScansTest, TakeWhatIsInMemory) {
  OpenAndFill();
  Warm(100, 160);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  TruncateLogs();
  ExpectRange(nullptr, 100, 160);
  ExpectRange(&snapshot, 100, 160);
  for (const uint32_t prefetch_records : {0U, 1U, 10U}) {
    // A reading may reach values that are not in memory. Their errors must not show.
    ExpectWalk(prefetch_records, /*backwards=*/false, 100, 160);
    ExpectWalk(prefetch_records, /*backwards=*/true, 100, 160);
  }
}

TEST_F(HotScansTest, WhatAWalkReadIsThereForTheNext) {
  OpenAndFill();
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  // A walk that must not take longer leaves some values to the next one.
  uint64_t before = 0;
  do {
    before = store_->Stats().frame_admission_count;
    ExpectRange(&snapshot, 100, 300);
  } while (store_->Stats().frame_admission_count > before);
  ExpectWalk(/*prefetch_records=*/1, /*backwards=*/false, 400, 500);
  // Walks read the blocks of paged runs beside the frames, so their values cannot be left.
  if (IsPagedRun()) return;
  EXPECT_EQ(before, 200u);
  EXPECT_EQ(store_->Stats().frame_admission_count, 300u);
  TruncateLogs();
  ExpectRange(&snapshot, 100, 300);
  for (uint64_t n = 400; n < 500; ++n) EXPECT_EQ(Version(n), 1u);
}

TEST_F(HotScansTest, EvictNothing) {
  options_.hot_value_bytes = 64 * 4096;
  OpenAndFill();
  Warm(0, 100);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  const StoreStats before = store_->Stats();
  ASSERT_GT(before.frame_admission_count, 32u);
  for (int i = 0; i < 5; ++i) {
    ExpectRange(nullptr, 0, kKeys);
    ExpectRange(&snapshot, 0, kKeys);
    for (const uint32_t prefetch_records : {0U, 1U, 10U}) {
      ExpectWalk(prefetch_records, /*backwards=*/false, 0, kKeys);
    }
  }
  EXPECT_EQ(store_->Stats().frame_eviction_count, before.frame_eviction_count);
}

TEST_F(HotScansTest, ValuesReadAtASnapshotAreKept) {
  OpenAndFill();
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  for (int i = 0; i < 4; ++i) ReadAt(snapshot, 0, 100);
  TruncateLogs();
  ReadAt(snapshot, 0, 100);
  for (uint64_t n = 0; n < 100; ++n) EXPECT_EQ(Version(n), 1u);
}

TEST_F(HotScansTest, SupersededValuesAreNotKept) {
  OpenAndFill();
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  for (uint64_t n = 0; n < kKeys; ++n) Write(n, 2);
  for (int i = 0; i < 4; ++i) ReadAt(snapshot, 0, 100);
  ExpectRange(&snapshot, 0, 200);
  EXPECT_EQ(store_->Stats().frame_admission_count, 0u);
  // The newest ones are.
  Warm(0, 100);
  ReadAt(snapshot, 0, 100);
  for (uint64_t n = 0; n < 100; ++n) EXPECT_EQ(Version(n), 2u);
}

}  // namespace
}  // namespace engine_race::test

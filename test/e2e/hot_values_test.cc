// Values that are read again and again come from memory, and nobody can tell but by the time it
// takes: writes, deletes, snapshots, iterators, ranges, damage and reopening.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "test/e2e/hot_values_fixture.h"
#include "test/index/refused_memory.h"

namespace engine_race::test {
namespace {

TEST_F(HotValuesTest, WhatIsHotNeedsNoLog) {
  OpenAndFill();
  Warm(0, 100);
  const StoreStats stats = store_->Stats();
  EXPECT_GE(stats.frame_admission_count, 95u);
  EXPECT_GE(stats.frame_hit_count, 190u);
  EXPECT_GT(stats.frame_miss_count, 0u);
  EXPECT_GT(stats.frame_limit_bytes, 0u);
  EXPECT_LE(stats.frame_memory_bytes, stats.frame_limit_bytes);
  TruncateLogs();
  uint64_t failed = 0;
  std::string value;
  for (uint64_t n = 0; n < 400; ++n) {
    value = "as it was";
    const Status status = store_->Read(KeyOf(NthKey(n)), &value);
    if (status.ok()) {
      EXPECT_EQ(value, ValueOf(NthKey(n), 1));
      continue;
    }
    ++failed;
    EXPECT_TRUE(status.code() == Code::kIOError || status.code() == Code::kCorruption)
        << status.ToString();
    EXPECT_EQ(value, "as it was");
    EXPECT_TRUE(n >= 100) << n;
  }
  EXPECT_GE(failed, 290u);
  std::vector<std::string> values;
  std::vector<uint64_t> numbers;
  for (uint64_t n = 0; n < 200; ++n) numbers.push_back(n);
  const std::vector<Status> statuses = MultiRead(numbers, &values);
  for (uint64_t n = 0; n < 100; ++n) {
    ASSERT_TRUE(statuses[n].ok()) << n << statuses[n].ToString();
    EXPECT_EQ(values[n], ValueOf(NthKey(n), 1));
  }
  EXPECT_FALSE(statuses[150].ok());
  ASSERT_TRUE(ReadAsync(50, &value).ok());
  EXPECT_EQ(value, ValueOf(NthKey(50), 1));
  EXPECT_FALSE(ReadAsync(300, &value).ok());
  // What iterators read one by one, and snapshots.
  IteratorOptions iterator_options;
  Iterator iterator;
  ASSERT_TRUE(store_->NewIterator(iterator_options, &iterator).ok());
  iterator.Seek(KeyOf(NthKey(10)));
  ASSERT_TRUE(iterator.Valid());
  EXPECT_EQ(iterator.value(), ValueOf(NthKey(10), 1));
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  ASSERT_TRUE(store_->Read(snapshot, KeyOf(NthKey(11)), &value).ok());
  EXPECT_EQ(value, ValueOf(NthKey(11), 1));
}

// Reclaim writes records again that nobody has overwritten.
TEST_F(HotValuesTest, WhatReclaimMovesStaysHot) {
  constexpr uint64_t kHotEnd = 200;
  OpenAndFill();
  for (int i = 0; i < 4; ++i) {
    for (uint64_t n = 0; n < kHotEnd; n += 2) ASSERT_EQ(Version(n), 1u);
  }
  for (uint64_t version = 2; version < 12; ++version) {
    for (uint64_t n = 1; n < kKeys; n += 2) ASSERT_NO_FATAL_FAILURE(Write(n, version));
  }
  ASSERT_TRUE(store_->Compact().ok());
  EXPECT_GE(store_->Stats().reclaim_moved_bytes, kHotEnd / 2 * kValueBytes);
  TruncateLogs();
  uint64_t failed = 0;
  std::string value;
  for (uint64_t n = 0; n < kHotEnd; n += 2) {
    if (!store_->Read(KeyOf(NthKey(n)), &value).ok()) {
      ++failed;
      continue;
    }
    EXPECT_EQ(value, ValueOf(NthKey(n), 1));
  }
  // Words in blocks of a paged index lose their frames.
  if (!IsPagedRun()) {
    EXPECT_LE(failed, 5u);
  }
}

TEST_F(HotValuesTest, TheFramesCanBeSwitchedOff) {
  options_.hot_value_bytes = 0;
  OpenAndFill();
  Warm(0, 100);
  const StoreStats stats = store_->Stats();
  EXPECT_EQ(stats.frame_value_bytes, 0u);
  EXPECT_EQ(stats.frame_admission_count, 0u);
  TruncateLogs();
  std::string value;
  EXPECT_FALSE(store_->Read(KeyOf(NthKey(1)), &value).ok());
}

TEST_F(HotValuesTest, SoMuchIsUsedAsIsAllowed) {
  options_.hot_value_bytes = 256 << 10;
  OpenAndFill();
  Warm(0, kKeys);
  const StoreStats stats = store_->Stats();
  EXPECT_LE(stats.frame_value_bytes, options_.hot_value_bytes);
  EXPECT_GE(stats.frame_value_bytes, options_.hot_value_bytes / 2);
  EXPECT_LE(stats.frame_memory_bytes, stats.frame_limit_bytes);
  store_.reset();
  // Too little for a single one is none.
  options_.hot_value_bytes = 4096;
  Open();
  Warm(0, 10);
  EXPECT_EQ(store_->Stats().frame_value_bytes, 0u);
  store_.reset();
  options_.hot_value_bytes = options_.memory_budget_bytes + 1;
  EXPECT_EQ(Store::Open(AsRun(options_), dir_.path(), &store_).code(), Code::kInvalidArgument);
}

TEST_F(HotValuesTest, WritesAndDeletesAreSeenAtOnceByEveryRead) {
  OpenAndFill();
  Warm(0, 200);
  for (uint64_t n = 0; n < 200; n += 2) Write(n, 2);
  for (uint64_t n = 1; n < 200; n += 4) {
    ASSERT_TRUE(store_->Delete(KeyOf(NthKey(n))).ok());
  }
  const auto expected = [](uint64_t n) -> uint64_t {
    if (n >= 200) return 1;
    if (n % 2 == 0) return 2;
    return n % 4 == 1 ? 0 : 1;
  };
  for (int round = 0; round < 4; ++round) {
    std::vector<uint64_t> numbers;
    for (uint64_t n = 0; n < 250; ++n) numbers.push_back(n);
    std::vector<std::string> values;
    const std::vector<Status> statuses = MultiRead(numbers, &values);
    for (uint64_t n = 0; n < 250; ++n) {
      ASSERT_EQ(Version(n), expected(n)) << n;
      ASSERT_EQ(statuses[n].ok(), expected(n) != 0) << n;
      if (expected(n) == 0) continue;
      ASSERT_EQ(values[n], ValueOf(NthKey(n), expected(n))) << n;
    }
    for (uint64_t n = 0; n < 250; n += 25) {
      std::string value;
      ASSERT_EQ(ReadAsync(n, &value).ok(), expected(n) != 0);
      if (expected(n) != 0) {
        ASSERT_EQ(value, ValueOf(NthKey(n), expected(n)));
      }
    }
    std::map<uint64_t, uint64_t> all;
    for (uint64_t n = 0; n < kKeys; ++n) {
      if (expected(n) != 0) all[NthKey(n)] = expected(n);
    }
    ExpectHolds(store_.get(), all);
    Iterator iterator;
    IteratorOptions iterator_options;
    iterator_options.prefetch_records = round % 2 == 0 ? 0 : 16;
    ASSERT_TRUE(store_->NewIterator(iterator_options, &iterator).ok());
    auto next = all.begin();
    for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next(), ++next) {
      ASSERT_EQ(iterator.key(), KeyOf(next->first));
      ASSERT_EQ(iterator.value(), ValueOf(next->first, next->second));
    }
    ASSERT_TRUE(iterator.status().ok()) << iterator.status().ToString();
    ASSERT_TRUE(next == all.end());
  }
}

TEST_F(HotValuesTest, SnapshotsSeeTheOldValueWhetherItIsHotOrNot) {
  OpenAndFill();
  Warm(0, 50);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  for (uint64_t n = 0; n < 50; ++n) Write(n, 2);
  Warm(0, 50);
  for (uint64_t n = 0; n < 100; ++n) {
    std::string value;
    ASSERT_TRUE(store_->Read(snapshot, KeyOf(NthKey(n)), &value).ok());
    EXPECT_EQ(value, ValueOf(NthKey(n), 1)) << n;
    EXPECT_EQ(Version(n), n < 50 ? 2u : 1u) << n;
  }
}

// By counts, not times: after a range over everything, and after every key was read once, what was
// hot is read from memory.
TEST_F(HotValuesTest, AScanDoesNotWashOutWhatIsHot) {
  options_.hot_value_bytes = 512 << 10;  // for a hundred values or so
  OpenAndFill();
  for (int i = 0; i < 10; ++i) {
    for (uint64_t n = 0; n < 80; ++n) ASSERT_EQ(Version(n), 1u);
  }
  const auto hits = [&] {
    const uint64_t before = store_->Stats().frame_hit_count;
    for (uint64_t n = 0; n < 80; ++n) EXPECT_EQ(Version(n), 1u);
    return store_->Stats().frame_hit_count - before;
  };
  const uint64_t before = hits();
  EXPECT_GE(before, 78u);
  EXPECT_EQ(RangeOf(store_.get(), "", "").size(), kKeys);
  EXPECT_GE(hits(), before * 9 / 10);
  for (uint64_t n = 0; n < kKeys; ++n) ASSERT_EQ(Version(n), 1u);
  EXPECT_GE(hits(), before * 9 / 10);
  Iterator iterator;
  ASSERT_TRUE(store_->NewIterator(IteratorOptions(), &iterator).ok());
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next())
    ASSERT_FALSE(iterator.value().empty());
  EXPECT_GE(hits(), before * 9 / 10);
}

// One share for ranges, one for frames, and all of it within the budget, whoever comes first.
TEST_F(HotValuesTest, RangesAndFramesStayWithinTheBudget) {
  for (const bool range_first : {true, false}) {
    if (range_first) {
      OpenAndFill();
      RangeOf(store_.get(), "", "");
    } else {
      Open();
    }
    Warm(0, kKeys);
    RangeOf(store_.get(), "", "");
    const StoreStats stats = store_->Stats();
    EXPECT_GT(stats.frame_memory_bytes, 0u);
    EXPECT_LE(stats.frame_memory_bytes, stats.frame_limit_bytes);
    EXPECT_LE(stats.log_memory_bytes + stats.index_memory_bytes + stats.range_memory_bytes +
                  stats.task_memory_bytes + stats.iterator_memory_bytes + stats.frame_limit_bytes,
              stats.memory_budget_bytes);
    EXPECT_GE(stats.frame_limit_bytes, stats.memory_budget_bytes / 16);
    store_.reset();
  }
}

TEST_F(HotValuesTest, WhatIsDamagedIsNeverLetIn) {
  for (const bool verify : {true, false}) {
    options_.verify_checksums = verify;
    if (verify) {
      OpenAndFill();
      store_.reset();
      // A bit of every value that the logs hold.
      for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
        if (entry.path().filename().string().rfind("value", 0) != 0) continue;
        const int fd = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
        ASSERT_GE(fd, 0);
        off_t at = ::lseek(fd, 0, SEEK_DATA);
        while (at >= 0) {
          char byte = 0;
          const off_t place = at / kValueBytes * kValueBytes + 100;
          if (::pread(fd, &byte, 1, place) != 1) break;
          byte = static_cast<char>(byte ^ 4);
          ASSERT_EQ(::pwrite(fd, &byte, 1, place), 1);
          at = ::lseek(fd, at / kValueBytes * kValueBytes + kValueBytes, SEEK_DATA);
        }
        ::close(fd);
      }
    }
    Open();
    uint64_t damaged = 0;
    for (int i = 0; i < 4; ++i) {
      for (uint64_t n = 0; n < kKeys; ++n) {
        std::string value;
        const Status status = store_->Read(KeyOf(NthKey(n)), &value);
        if (status.code() == Code::kCorruption) {
          ++damaged;
          continue;
        }
        ASSERT_TRUE(status.ok());
        // Unverified reads give what there is.
        if (value != ValueOf(NthKey(n), 1)) {
          ASSERT_FALSE(verify);
          ++damaged;
        }
      }
    }
    EXPECT_GE(damaged, kKeys * 4 * 9 / 10);
    EXPECT_EQ(store_->Stats().frame_admission_count, 0u);
    store_.reset();
  }
}

TEST_F(HotValuesTest, EverythingIsThereAgainAfterReopening) {
  OpenAndFill();
  Warm(0, 300);
  for (uint64_t n = 0; n < 100; ++n) Write(n, 2);
  Warm(0, 300);
  store_.reset();
  Open();
  EXPECT_EQ(store_->Stats().frame_hit_count, 0u);
  std::map<uint64_t, uint64_t> all;
  for (uint64_t n = 0; n < kKeys; ++n) all[NthKey(n)] = n < 100 ? 2 : 1;
  ExpectHolds(store_.get(), all);
  Warm(0, 300);
  ExpectHolds(store_.get(), all);
}

// Whatever request for memory is refused while values become hot, the read says so or succeeds.
TEST_F(HotValuesTest, RefusedMemoryTakesNothingDown) {
  OpenAndFill();
  store_.reset();
  for (uint64_t passed = 0; passed < 200; passed += passed < 8 ? 1 : 9) {
    Open();
    bool refused = false;
    for (int i = 0; i < 4; ++i) {
      std::string value;
      const RefuseMemory refuse(passed);
      const Status status = store_->Read(KeyOf(NthKey(1)), &value);
      refused |= refuse.refused();
      ASSERT_TRUE(status.ok() || status.code() == Code::kOutOfMemory) << status.ToString();
    }
    for (int i = 0; i < 4; ++i) ASSERT_EQ(Version(1), 1u);
    store_.reset();
    if (!refused) break;
  }
}

}  // namespace
}  // namespace engine_race::test

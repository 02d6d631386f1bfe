// Index, staging, ranges and hot values of a store never take more than its budget together,
// whichever of them comes first.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

uint64_t SumOf(const StoreStats& stats) {
  return stats.log_memory_bytes + stats.index_memory_bytes + stats.range_memory_bytes +
         stats.task_memory_bytes + stats.iterator_memory_bytes + stats.frame_memory_bytes;
}

class MemoryBudgetTest : public ::testing::Test {
 protected:
  MemoryBudgetTest() {
    options_.memory_budget_bytes = 24 * kMiB;
    options_.bucket_count = 16;
    options_.file_count = 16;
    options_.worker_count = 1;
    options_.value_group_bytes = 16 << 10;
    store_ = OpenStore(dir_.path(), options_);
  }
  // For sizes that are those of an index in memory, in paged runs as well.
  void KeepIndexFlat() {
    store_.reset();
    ASSERT_TRUE(Store::Open(options_, dir_.path(), &store_).ok());
  }
  // Looks at the sum all the time while `run` runs.
  void WithinBudget(const std::function<void()>& run) {
    std::atomic<bool> stop{false};
    std::thread checker([&] {
      while (!stop) {
        const StoreStats stats = store_->Stats();
        ASSERT_LE(SumOf(stats), stats.memory_budget_bytes)
            << "index " << stats.index_memory_bytes << " ranges " << stats.range_memory_bytes
            << " frames " << stats.frame_memory_bytes << " staging " << stats.log_memory_bytes;
      }
    });
    run();
    stop = true;
    checker.join();
  }
  void Write(uint64_t begin, uint64_t end) {
    RunThreads(2, [&](uint32_t thread) {
      for (uint64_t n = begin + thread; n < end; n += 2) {
        ASSERT_TRUE(store_->Write(KeyOf(NthKey(n)), ValueOf(NthKey(n), 1)).ok());
      }
    });
  }
  void Warm(uint64_t begin, uint64_t end) {
    for (int i = 0; i < 3; ++i) {
      for (uint64_t n = begin; n < end; ++n) ASSERT_EQ(VersionOf(store_.get(), NthKey(n)), 1u);
    }
  }
  uint64_t Range() { return RangeOf(store_.get(), "", "").size(); }

  TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<Store> store_;
};

TEST_F(MemoryBudgetTest, AnEarlyRangeDoesNotCapHotValuesForGood) {
  Write(0, 1);
  EXPECT_EQ(Range(), 1u);
  WithinBudget([&] {
    Write(1, 5000);
    EXPECT_EQ(Range(), 5000u);
    EXPECT_EQ(Range(), 5000u);
    // Once ranges are not used any more, they keep 8 MiB of what they took.
    Warm(0, 5000);
    Warm(0, 5000);
  });
  const StoreStats stats = store_->Stats();
  EXPECT_GE(stats.frame_memory_bytes + 9 * kMiB + stats.index_memory_bytes + 5 * kMiB,
            stats.memory_budget_bytes);
  EXPECT_LE(stats.range_memory_bytes, 9 * kMiB);
}

TEST_F(MemoryBudgetTest, RangesAfterHotValues) {
  KeepIndexFlat();
  Write(0, 5000);
  WithinBudget([&] {
    Warm(0, 5000);
    EXPECT_GE(store_->Stats().frame_memory_bytes, 8 * kMiB);
    for (int pass = 0; pass < 3; ++pass) {
      EXPECT_EQ(Range(), 5000u);
    }
  });
  // They were given chunks, whatever hot values had taken before.
  EXPECT_GT(store_->Stats().range_memory_bytes, 0u);
}

// The frames follow the index, whatever keys are written.
TEST_F(MemoryBudgetTest, AGrowingIndexMakesHotValuesGiveBack) {
  KeepIndexFlat();
  Write(0, 5000);
  Warm(0, 5000);
  const StoreStats before = store_->Stats();
  WithinBudget([&] { Write(5000, 5000 + Sized(30000, 10000)); });
  const StoreStats after = store_->Stats();
  const uint64_t grown_bytes = after.index_memory_bytes - before.index_memory_bytes;
  EXPECT_GT(grown_bytes, 128u << 10);
  EXPECT_GE(before.frame_limit_bytes - after.frame_limit_bytes, grown_bytes);
  EXPECT_LE(after.frame_memory_bytes, after.frame_limit_bytes);
}

// Everything at once, from several threads.
TEST_F(MemoryBudgetTest, EverybodyAtOnce) {
  Write(0, 3000);
  EXPECT_EQ(Range(), 3000u);
  WithinBudget([&] {
    std::thread ranges([&] {
      for (int pass = 0; pass < 4; ++pass) EXPECT_GE(Range(), 3000u);
    });
    std::thread reads([&] { Warm(0, 3000); });
    Write(3000, 3000 + Sized(10000, 4000));
    reads.join();
    ranges.join();
  });
}

}  // namespace
}  // namespace engine_race::test

// Lookups in paged runs without the bucket's lock. Index::Prefetch gives windows only where runs
// are published and their blocks are in frames, so windows tell when that is so.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/l1/epoch.h"
#include "test/eventually.h"
#include "test/index/paged_index_fixture.h"
#include "test/watched_thread.h"

namespace engine_race::test {
namespace {

class PagedWindowsTest : public PagedIndexFixture {
 protected:
  PagedWindowsTest() : PagedIndexFixture(/*frame_count=*/4096) {
    options_.bucket_count = 2;
    options_.file_count = 2;
  }

  std::vector<uint64_t> Keys() const {
    std::vector<uint64_t> keys;
    keys.reserve(newest_.size());
    for (const auto& [key, slot] : newest_) keys.push_back(key);
    return keys;
  }
  std::vector<RunWindow> WindowsOf(const std::vector<uint64_t>& keys) const {
    std::vector<RunWindow> windows(keys.size());
    index_->Prefetch(keys, windows);
    return windows;
  }
  // How many keys of the bucket get a window.
  size_t CountWindows(uint32_t bucket) const {
    const std::vector<uint64_t> keys = Keys();
    const std::vector<RunWindow> windows = WindowsOf(keys);
    size_t count = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      count += windows[i].block != 0 && log_->geometry().BucketOf(keys[i]) == bucket;
    }
    return count;
  }
  size_t CountKeys(uint32_t bucket) const {
    size_t count = 0;
    for (const auto& [key, slot] : newest_) count += log_->geometry().BucketOf(key) == bucket;
    return count;
  }
  // Whether every key of the bucket gets a window. Brings its blocks into frames first.
  bool IsPublished(uint32_t bucket) {
    ExpectFinds();
    return CountWindows(bucket) == CountKeys(bucket);
  }
  // Each lookup answers right, or wants a block.
  void ExpectFindsWith(const std::vector<uint64_t>& keys, const std::vector<RunWindow>& windows) {
    const l1::EpochManager::Guard guard(frames_->epochs());
    for (size_t i = 0; i < keys.size(); ++i) {
      ValueRef ref;
      BlockLookup lookup;
      const Status status = index_->FindHot(keys[i], &ref, &lookup, windows[i]);
      if (status.code() == Code::kIncomplete) continue;
      const auto found = newest_.find(keys[i]);
      ASSERT_EQ(status.ok(), found != newest_.end()) << keys[i];
      if (status.ok()) {
        ASSERT_EQ(ref.slot(), found->second) << keys[i];
      }
    }
  }
  // Overwrites keys of the bucket until its delta is full and the keeper has merged it. After each
  // record that may be the last, waits until the keeper has no more to do: the merge takes all.
  void WriteUntilMerged(uint32_t bucket) {
    const uint64_t written = index_->written_bytes();
    const uint64_t limit = CountKeys(bucket) / 10;
    uint64_t count = 0;
    for (const uint64_t key : Keys()) {
      if (log_->geometry().BucketOf(key) != bucket) continue;
      ASSERT_NO_FATAL_FAILURE(Write(key));
      if (++count < limit) continue;
      ASSERT_TRUE(AwaitSleepOf("er-keeper"));
      if (index_->written_bytes() != written) return;
    }
    FAIL() << "no delta was merged";
  }
};

TEST_F(PagedWindowsTest, EveryKeyHasAWindowAndNoOtherKeyHasOne) {
  ASSERT_NO_FATAL_FAILURE(Fill(40000));
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  std::vector<uint64_t> keys = Keys();
  const std::vector<RunWindow> windows = WindowsOf(keys);
  for (const RunWindow& window : windows) {
    ASSERT_NE(window.block, 0u);
    ASSERT_FALSE(window.is_flat());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, windows));
  for (uint64_t& key : keys) ++key;
  keys.push_back(0);
  keys.push_back(kLast);
  std::erase_if(keys, [this](uint64_t key) { return newest_.contains(key); });
  const std::vector<RunWindow> others = WindowsOf(keys);
  for (const RunWindow& window : others) ASSERT_EQ(window.block, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, others));
}

TEST_F(PagedWindowsTest, ARecordHidesTheRunsOfItsBucket) {
  ASSERT_NO_FATAL_FAILURE(Fill(10000));
  ASSERT_TRUE(IsPublished(0));
  const std::vector<uint64_t> keys = Keys();
  const std::vector<RunWindow> old_windows = WindowsOf(keys);
  const uint64_t bytes = index_->memory_bytes();
  ASSERT_NO_FATAL_FAILURE(Write(keys.front()));
  EXPECT_EQ(index_->memory_bytes(), index_->WalkMemoryBytes());
  EXPECT_NE(index_->memory_bytes(), bytes);
  EXPECT_EQ(CountWindows(0), 0u);
  EXPECT_EQ(CountWindows(1), CountKeys(1));
  // The overwritten key is still in the place that its window names.
  ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, old_windows));
  ASSERT_NO_FATAL_FAILURE(Write(keys[1], /*tombstone=*/true));
  ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, old_windows));
}

// A batch that goes elsewhere, or is refused, leaves deltas behind that are empty.
TEST_F(PagedWindowsTest, RoomForABatchReplacesNoPublishedRun) {
  ASSERT_NO_FATAL_FAILURE(Fill(10000));
  ASSERT_TRUE(IsPublished(0));
  const std::vector<uint64_t> keys = Keys();
  const uint64_t written = index_->written_bytes();
  auto& listener = static_cast<AppendListener&>(*index_);
  for (const uint32_t count : {20U, 500U, 20'000U}) {
    ASSERT_TRUE(listener.PrepareMany(0, count, [](uint32_t i) { return uint64_t{i}; }).ok());
    EXPECT_EQ(index_->written_bytes(), written) << count;
    EXPECT_EQ(index_->memory_bytes(), index_->WalkMemoryBytes());
    EXPECT_TRUE(IsPublished(0));
    ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, WindowsOf(keys)));
  }
}

TEST_F(PagedWindowsTest, AMergePublishesItsRuns) {
  ASSERT_NO_FATAL_FAILURE(Fill(10000));
  const std::vector<uint64_t> keys = Keys();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(IsPublished(0));
    const std::vector<RunWindow> old_windows = WindowsOf(keys);
    // If the merge has left a record behind, the next one takes it.
    ASSERT_TRUE(Eventually([&] {
      WriteUntilMerged(0);
      return HasFatalFailure() || IsPublished(0);
    }));
    ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, old_windows));
    EXPECT_EQ(index_->memory_bytes(), index_->WalkMemoryBytes());
  }
}

TEST_F(PagedWindowsTest, RunsArePublishedOnceNoViewNeedsHistory) {
  ASSERT_NO_FATAL_FAILURE(Fill(10000));
  ASSERT_TRUE(IsPublished(0));
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  const auto before = newest_;
  ASSERT_NO_FATAL_FAILURE(WriteUntilMerged(0));
  for (const auto& [key, slot] : before) {
    ValueRef ref;
    ASSERT_TRUE(index_->Find(key, &ref, view.version).ok());
    ASSERT_EQ(ref.slot(), slot);
  }
  EXPECT_EQ(CountWindows(0), 0u);
  index_->views().Release(&view);
  // If the merge has left a record behind, the next one takes it.
  EXPECT_TRUE(Eventually([&] {
    if (IsPublished(0)) return true;
    WriteUntilMerged(0);
    return HasFatalFailure();
  }));
  EXPECT_TRUE(IsPublished(0));
}

TEST_F(PagedWindowsTest, AWindowOutlivesItsBlock) {
  ASSERT_NO_FATAL_FAILURE(Fill(40000));
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  const std::vector<uint64_t> keys = Keys();
  const std::vector<RunWindow> windows = WindowsOf(keys);
  // Evicts all blocks.
  frames_->pool().SetLimit(0);
  EXPECT_EQ(CountWindows(0), 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, windows));
  // Other blocks come into the frames.
  frames_->pool().SetLimit(frames_->frame_count());
  for (auto at = keys.rbegin(); at != keys.rend(); ++at) {
    ValueRef ref;
    ASSERT_TRUE(index_->Find(*at, &ref).ok());
  }
  ASSERT_EQ(CountWindows(0), CountKeys(0));
  ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, windows));
  std::vector<RunWindow> wrong(windows.rbegin(), windows.rend());
  wrong[0] = {RunWindow::kFlat, 0};
  wrong[3] = {RunWindow::kFlat + 1, 0};
  wrong[1] = {RunWindow::kFlat - 1, 0};
  wrong[2] = {1, ~uint32_t{0}};
  ASSERT_NO_FATAL_FAILURE(ExpectFindsWith(keys, wrong));
}

TEST_F(PagedWindowsTest, ABucketThatWaitedIsPublishedWhenItIsAdmitted) {
  ASSERT_NO_FATAL_FAILURE(Fill(10000));
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  Close();
  ASSERT_NO_FATAL_FAILURE(Open(Index::Opening::kMayWait));
  ASSERT_TRUE(index_->needs_restore_rest());
  EXPECT_EQ(CountWindows(0) + CountWindows(1), 0u);
  EXPECT_TRUE(IsPublished(0));
  EXPECT_TRUE(IsPublished(1));
  index_->RestoreRest();
  EXPECT_TRUE(IsPublished(0));
}

// Reads, batches included, beside a writer of growing slots, merges, and evictions of all blocks.
TEST_F(PagedWindowsTest, ReadersSeeNoKeyGoBackBesideWritesMergesAndEvictions) {
  ASSERT_NO_FATAL_FAILURE(Fill(4000));
  const std::vector<uint64_t> keys = Keys();
  std::vector<std::atomic<uint32_t>> newest(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) newest[i] = newest_[keys[i]];
  std::atomic<bool> done{false};
  const auto read = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    constexpr size_t kBatch = 64;
    std::vector<uint64_t> batch(kBatch);
    std::vector<RunWindow> windows(kBatch);
    std::vector<uint32_t> before(kBatch);
    while (!done) {
      const size_t first = random() % (keys.size() - kBatch);
      for (size_t i = 0; i < kBatch; ++i) batch[i] = keys[first + i];
      index_->Prefetch(batch, windows);
      for (size_t i = 0; i < kBatch; ++i) {
        before[i] = newest[first + i].load(std::memory_order_acquire);
        ValueRef ref;
        Status status;
        BlockLookup lookup;
        {
          const l1::EpochManager::Guard guard(frames_->epochs());
          status = index_->FindHot(batch[i], &ref, &lookup, windows[i]);
        }
        if (status.code() == Code::kIncomplete) status = index_->Find(batch[i], &ref);
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_GE(ref.slot(), before[i]) << "an older record than was acknowledged";
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 2; ++seed) threads.emplace_back(read, seed);
  threads.emplace_back([&] {
    while (!done) {
      frames_->pool().SetLimit(0);
      frames_->pool().SetLimit(frames_->frame_count());
      std::this_thread::yield();
    }
  });
  std::mt19937_64 random(9);
  constexpr int kRounds = Sized(6, 3);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 5000; ++i) {
      const size_t at = random() % keys.size();
      ASSERT_NO_FATAL_FAILURE(Write(keys[at]));
      newest[at].store(newest_[keys[at]], std::memory_order_release);
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

}  // namespace
}  // namespace engine_race::test

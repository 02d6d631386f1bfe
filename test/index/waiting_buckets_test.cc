// Buckets that wait for the first call that needs them, behind the opening of an index.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/index/index_keeper.h"
#include "engine_race/index/index_restore.h"
#include "engine_race/log/format.h"
#include "test/faults/system_calls.h"
#include "test/index/key_reads.h"
#include "test/index/paged_index_fixture.h"
#include "test/index/refused_memory.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kWaitingRecords = 24000;

class WaitingBucketsTest : public PagedIndexFixture {
 protected:
  WaitingBucketsTest() : PagedIndexFixture(/*frame_count=*/64) {}

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Fill(kWaitingRecords));
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Close();
  }
  void OpenWaiting() { Open(Index::Opening::kMayWait); }
  Code Find(uint64_t key) const {
    ValueRef ref;
    return index_->Find(key, &ref).code();
  }
  // The first of the newest records in a bucket.
  uint64_t KeyIn(uint32_t bucket) const {
    return newest_.lower_bound(log_->geometry().FirstKeyOf(bucket))->first;
  }
  // More records for a bucket than an opening reads behind the ones that its extents cover.
  void OutgrowCoverage(uint32_t bucket) {
    const uint64_t first = log_->geometry().FirstKeyOf(bucket);
    const uint64_t count =
        MaxTail(*log_, bucket, {kWaitingRecords / options_.bucket_count, 0}) + 100;
    for (uint64_t i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(Write(first + i));
  }
  std::string Root() const {
    std::ifstream file(dir_.path() + "/" + format::kIndexRootName, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Opens with all buckets waiting; a lookup must read its own bucket alone.
  void ExpectOwnBucketRead() {
    KeyReads reads;
    const ScopedHook hook(&reads);
    ASSERT_NO_FATAL_FAILURE(OpenWaiting());
    ASSERT_TRUE(index_->needs_restore_rest());
    EXPECT_EQ(reads.count, 0U);
    EXPECT_EQ(Find(KeyIn(3)), Code::kOk);
    const uint64_t of_one = reads.count;
    EXPECT_GT(of_one, 0U);
    EXPECT_EQ(Find(KeyIn(3) + 1), Code::kNotFound);
    EXPECT_EQ(reads.count, of_one) << "a bucket is read once";
    EXPECT_EQ(Find(KeyIn(5)), Code::kOk);
    EXPECT_LE(reads.count, 2 * of_one + 1);
    index_->RestoreRest();
    EXPECT_LE(reads.count, options_.bucket_count * (of_one + 1));
    ASSERT_NO_FATAL_FAILURE(ExpectFinds());
    ASSERT_NO_FATAL_FAILURE(ExpectWalks());
    EXPECT_FALSE(messages_.Said("from their key logs"));
  }
  // Checks that a view shows of each key the newest record from before the view. It may also answer
  // kIOError.
  void ExpectViewsOfNow() {
    for (uint32_t b = 0; b < options_.bucket_count; ++b) {
      ASSERT_NO_FATAL_FAILURE(Write(KeyIn(b)));
    }
    ViewRegistry::View view;
    ASSERT_TRUE(index_->views().Take(&view).ok());
    for (uint32_t b = 0; b < options_.bucket_count; ++b) {
      const uint64_t key = KeyIn(b);
      const uint32_t slot = newest_[key];
      ASSERT_NO_FATAL_FAILURE(Write(key));
      ValueRef ref;
      const Code code = index_->Find(key, &ref, view.version).code();
      if (code == Code::kOk) {
        EXPECT_EQ(ref.slot(), slot) << "bucket " << b;
      } else {
        EXPECT_EQ(code, Code::kIOError) << "bucket " << b;
      }
    }
    ViewRegistry::Release(&view);
  }
};

TEST_F(WaitingBucketsTest, ALookupReadsItsOwnBucketOnly) {
  for (const bool has_root : {true, false}) {
    ExpectOwnBucketRead();
    if (!has_root) continue;
    Close();
    // So that the hook sees the reads.
    options_.io_backend = IoBackend::kPsync;
    ASSERT_EQ(::unlink((dir_.path() + "/" + format::kIndexRootName).c_str()), 0);
  }
}

TEST_F(WaitingBucketsTest, RecordsThatComeMeanwhileAreFound) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(OpenWaiting());
    ASSERT_TRUE(index_->needs_restore_rest());
    ASSERT_NO_FATAL_FAILURE(Churn(500, &random));
    EXPECT_EQ(Find(KeyIn(2)), Code::kOk);
    ASSERT_NO_FATAL_FAILURE(Churn(500, &random));
    std::thread rest([this] { index_->RestoreRest(); });
    ExpectFinds(7);
    rest.join();
    ASSERT_NO_FATAL_FAILURE(ExpectFinds());
    ASSERT_NO_FATAL_FAILURE(ExpectWalks());
    ASSERT_NO_FATAL_FAILURE(Churn(500, &random));
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Close();
  }
}

TEST_F(WaitingBucketsTest, GiantsWaitToo) {
  // With the least budget every second bucket has more records than one thread sorts.
  options_.memory_budget_bytes = kMinMemoryBudgetBytes;
  for (uint32_t b = 0; b < options_.bucket_count; b += 2) {
    ASSERT_NO_FATAL_FAILURE(Open());
    const uint64_t first = log_->geometry().FirstKeyOf(b);
    for (uint64_t i = 0; i < 20000; ++i) ASSERT_NO_FATAL_FAILURE(Write(first + i % 5000));
    Close();
  }
  ASSERT_EQ(::unlink((dir_.path() + "/" + format::kIndexRootName).c_str()), 0);
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  ASSERT_GT(log_->SlotEnd(2), BuildLimits::For(options_, 16).giant_records);
  EXPECT_EQ(Find(KeyIn(2)), Code::kOk);
  std::thread rest([this] { index_->RestoreRest(); });
  ExpectFinds(7);
  rest.join();
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  ASSERT_NO_FATAL_FAILURE(ExpectWalks());
}

TEST_F(WaitingBucketsTest, ABucketWithDamagedCountsDoesNotWait) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t store_id = log_->store_id();
  const uint64_t key = KeyIn(3);
  Close();
  // With the check of another store.
  SetWord(dir_.path(), store_id + 1, 3, format::WordKind::kRecords, 5);
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  EXPECT_EQ(Find(key), Code::kCorruption);
  EXPECT_EQ(Find(KeyIn(4)), Code::kOk);
  index_->RestoreRest();
  EXPECT_EQ(Find(key), Code::kCorruption);
  // Nobody tries to read it: the opening of the log has told of its counts.
  EXPECT_FALSE(messages_.Said("cannot be read")) << messages_.text();
  newest_.erase(newest_.lower_bound(log_->geometry().FirstKeyOf(3)),
                newest_.lower_bound(log_->geometry().FirstKeyOf(4)));
  for (const auto& [other, slot] : newest_) {
    ValueRef ref;
    ASSERT_EQ(index_->Find(other, &ref).code(), Code::kOk);
    ASSERT_EQ(ref.slot(), slot);
  }
}

TEST_F(WaitingBucketsTest, AnIndexWithoutRecordsIsWhole) {
  const TempDir other;
  ASSERT_TRUE(BucketLog::Open(options_, other.path(), &log_).ok());
  ASSERT_TRUE(
      Index::Build(log_.get(), options_, &index_, nullptr, nullptr, Index::Opening::kMayWait).ok());
  EXPECT_FALSE(index_->needs_restore_rest());
  index_.reset();
  log_.reset();
}

TEST_F(WaitingBucketsTest, ABucketThatIsNotCoveredAfterAllIsBuilt) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  {
    // The entry that the coverage is checked with cannot be read.
    KeyReads reads;
    const ScopedHook hook(&reads);
    reads.fails = true;
    EXPECT_EQ(Find(KeyIn(1)), Code::kIOError);
  }
  EXPECT_EQ(Find(KeyIn(1)), Code::kOk);
  index_->RestoreRest();
  EXPECT_TRUE(messages_.Said("does not cover 1 buckets"));
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  ASSERT_NO_FATAL_FAILURE(ExpectWalks());
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

TEST_F(WaitingBucketsTest, ABucketThatCouldNotBeReadIsHiddenFromOlderViews) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  EXPECT_EQ(Find(KeyIn(0)), Code::kOk);
  {
    KeyReads reads;
    const ScopedHook hook(&reads);
    reads.fails = true;
    index_->RestoreRest();
  }
  EXPECT_TRUE(messages_.Said("bucket 6 cannot be read"));
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  const uint64_t unchanged = KeyIn(5);
  ASSERT_NO_FATAL_FAILURE(Write(KeyIn(6)));
  ValueRef ref;
  EXPECT_EQ(index_->Find(KeyIn(6), &ref, view.version).code(), Code::kIOError);
  EXPECT_EQ(index_->Find(unchanged, &ref, view.version).code(), Code::kOk);
  EXPECT_EQ(Find(KeyIn(6)), Code::kOk);
  ViewRegistry::Release(&view);
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

TEST_F(WaitingBucketsTest, ManyThreadsNeedTheSameBuckets) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      if (t == 0) index_->RestoreRest();
      ExpectFinds(31);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

// Shared with the allocation hook of the test below, which holds the build up after it has
// installed its runs.
constexpr uint32_t kNotedRecords = 777;
std::atomic<bool> noted_are_copied;
std::atomic<bool> build_is_held;
std::atomic<bool> build_goes_on;

TEST_F(WaitingBucketsTest, WhatWasWrittenMeanwhileIsNeverMissed) {
  options_.index_memory_bytes = uint64_t{1} << 30;
  options_.io_backend = IoBackend::kPsync;
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  ASSERT_NO_FATAL_FAILURE(OutgrowCoverage(1));
  const uint64_t key = KeyIn(1);
  HeldKeyReads held;
  const ScopedHook hook(&held);
  noted_are_copied = build_is_held = build_goes_on = false;
  std::atomic<bool> is_done{false};
  std::thread reader([&] {
    // The records that came meanwhile are copied under the lock, and added later.
    const WatchMemory watch([](size_t size) {
      if (noted_are_copied.exchange(size == kNotedRecords * sizeof(IndexEntry)) == false) return;
      build_is_held = true;
      while (!build_goes_on) std::this_thread::yield();
    });
    EXPECT_EQ(Find(key), Code::kOk);
    is_done = true;
  });
  while (!held.is_held && !is_done) std::this_thread::yield();
  for (uint32_t i = 0; i < kNotedRecords; ++i) EXPECT_NO_FATAL_FAILURE(Write(key));
  held.goes_on = true;
  while (!build_is_held && !is_done) std::this_thread::yield();
  EXPECT_TRUE(build_is_held);
  ValueRef ref;
  EXPECT_EQ(index_->FindHot(key, &ref, nullptr).code(), Code::kIOError);
  build_goes_on = true;
  reader.join();
  index_->RestoreRest();
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

TEST_F(WaitingBucketsTest, AFewBucketsAreRestoredByMoreThanOneThread) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  PairsOfKeyReads reads;
  const ScopedHook hook(&reads);
  index_->RestoreRest();
  EXPECT_GT(reads.thread_count(), 1U);
}

TEST_F(WaitingBucketsTest, EveryBucketIsTriedWhateverMemoryIsRefused) {
  // Other threads, whose requests are not refused, may make most of them in a round.
  constexpr int kRoundsWithoutRefusal = 5;
  int rounds_left = kRoundsWithoutRefusal;
  for (uint64_t passed = 0; rounds_left > 0; passed += 1 + passed / 16) {
    SCOPED_TRACE("request " + std::to_string(passed));
    Close();
    ASSERT_NO_FATAL_FAILURE(OpenWaiting());
    ASSERT_TRUE(index_->needs_restore_rest());
    {
      const RefuseMemory refuse(passed);
      index_->RestoreRest();
      rounds_left = refuse.refused() ? kRoundsWithoutRefusal : rounds_left - 1;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectViewsOfNow());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

TEST_F(WaitingBucketsTest, ARefusedRestoreKeepsNoPlaceOnDisk) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t disk_bytes = index_->disk_bytes();
  bool is_refused = true;
  for (uint64_t passed = 0; is_refused; ++passed) {
    SCOPED_TRACE("request " + std::to_string(passed));
    Close();
    ASSERT_NO_FATAL_FAILURE(OpenWaiting());
    const uint64_t key = KeyIn(3);
    {
      const RefuseMemory refuse(passed);
      const Code code = Find(key);
      is_refused = refuse.refused();
      EXPECT_TRUE(code == Code::kOk || (is_refused && code == Code::kOutOfMemory));
    }
    index_->RestoreRest();
    EXPECT_EQ(Find(key), Code::kOk);
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    EXPECT_EQ(index_->disk_bytes(), disk_bytes);
  }
}

TEST_F(WaitingBucketsTest, ClosingSavesWithoutAKeeperBefore) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  {
    const WatchMemory watch([](size_t size) {
      if (size == sizeof(IndexKeeper)) throw std::bad_alloc();
    });
    index_->RestoreRest();
  }
  ASSERT_NO_FATAL_FAILURE(OutgrowCoverage(3));
  EXPECT_EQ(index_->Save(~uint64_t{0}).code(), Code::kOutOfMemory);
  const std::string before = Root();
  EXPECT_TRUE(index_->Close(~uint64_t{0}).ok());
  EXPECT_FALSE(Root() == before);
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

// Every other bucket has no records.
class WaitingBucketsEmptyTest : public WaitingBucketsTest {
 protected:
  void SetUp() override {
    options_.bucket_count = 4;
    ASSERT_NO_FATAL_FAILURE(Open());
    for (const uint32_t bucket : {0, 2}) {
      const uint64_t first = log_->geometry().FirstKeyOf(bucket);
      for (uint64_t i = 0; i < 2600; ++i) ASSERT_NO_FATAL_FAILURE(Write(first + i));
    }
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Close();
  }
};

TEST_F(WaitingBucketsEmptyTest, BucketsWithoutRecordsHoldUpNothing) {
  KeyReads reads;
  const ScopedHook hook(&reads);
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  ASSERT_TRUE(index_->needs_restore_rest());
  EXPECT_EQ(Find(log_->geometry().FirstKeyOf(1) + 5), Code::kNotFound);
  EXPECT_EQ(reads.count, 0U);
  // No longer empty when it is read.
  ASSERT_NO_FATAL_FAILURE(Write(log_->geometry().FirstKeyOf(3) + 5));
  index_->RestoreRest();
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  ASSERT_NO_FATAL_FAILURE(ExpectWalks());
  ASSERT_NO_FATAL_FAILURE(Write(log_->geometry().FirstKeyOf(1) + 5));
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

}  // namespace
}  // namespace engine_race::test

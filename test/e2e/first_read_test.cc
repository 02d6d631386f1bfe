// The first Read of an opened store waits for its own bucket of the index. Calls that read in any
// other way wait for all buckets.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kBuckets = 4;
// Of each bucket: enough that the index is written for it.
constexpr uint64_t kRecords = 2600;

uint64_t KeyIn(uint64_t bucket, uint64_t i) { return (bucket << 62) + i; }

// Holds up the reads of key entries, so that buckets wait for long.
class SlowKeyReads : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPread && PathOfFd(call->fd).find("key") != std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return call->Proceed();
  }
};

class FirstReadTest : public ::testing::Test {
 protected:
  FirstReadTest() {
    options_ = TinyOptions();
    options_.worker_count = 1;
    store_ = OpenStore(dir_.path(), options_);
    for (uint64_t b = 0; b < kBuckets; ++b) {
      for (uint64_t i = 0; i < kRecords; ++i) Write(KeyIn(b, i), 1);
    }
    std::string value;
    EXPECT_TRUE(store_->Read(KeyOf(KeyIn(0, 0)), &value).ok());
    store_.reset();
    // So that buckets are restored, not built.
    EXPECT_TRUE(std::filesystem::exists(dir_.Join(format::kIndexRootName)));
  }
  void Write(uint64_t key, uint64_t version) const {
    EXPECT_TRUE(store_->Write(KeyOf(key), ValueOf(key, version)).ok());
  }
  void ExpectRead(uint64_t key, uint64_t version) const {
    std::string value;
    const Status status = store_->Read(KeyOf(key), &value);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(value, ValueOf(key, version)) << key;
  }
  // Other buckets wait when this returns.
  void OpenAndReadOne(uint64_t bucket) {
    slow_.emplace();
    hook_.emplace(&*slow_);
    store_ = OpenStore(dir_.path(), options_);
    ExpectRead(KeyIn(bucket, 17), 1);
  }
  template <typename RangeFn>
  static uint64_t CountOf(const RangeFn& range) {
    uint64_t visited = 0;
    const Status status = range([&visited](auto, auto) { ++visited; });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return visited;
  }

  const TempDir dir_{FastParent()};
  Options options_;
  std::optional<SlowKeyReads> slow_;
  std::optional<ScopedHook> hook_;
  std::unique_ptr<Store> store_;
};

TEST_F(FirstReadTest, ARangeMayComeNext) {
  OpenAndReadOne(0);
  EXPECT_EQ(CountOf([&](const auto& visit) { return store_->Range("", "", visit); }),
            kBuckets * kRecords);
}

TEST_F(FirstReadTest, ASnapshotMayComeNext) {
  OpenAndReadOne(1);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  // The last bucket first, because it waits longest.
  for (uint64_t b = kBuckets; b-- > 0;) Write(KeyIn(b, kRecords), 2);
  EXPECT_EQ(CountOf([&](const auto& visit) { return store_->Range(snapshot, "", "", visit); }),
            kBuckets * kRecords);
}

TEST_F(FirstReadTest, AnIteratorMayComeNext) {
  OpenAndReadOne(2);
  Iterator iterator;
  ASSERT_TRUE(store_->NewIterator({}, &iterator).ok());
  iterator.SeekToLast();
  ASSERT_TRUE(iterator.Valid());
  EXPECT_EQ(iterator.key(), KeyOf(KeyIn(kBuckets - 1, kRecords - 1)));
}

TEST_F(FirstReadTest, AMultiReadMayComeNext) {
  OpenAndReadOne(3);
  std::vector<std::string> keys;
  for (uint64_t b = 0; b < kBuckets; ++b) keys.push_back(KeyOf(KeyIn(b, 99)));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<std::string> values(kBuckets);
  std::vector<Status> statuses(kBuckets);
  ASSERT_TRUE(store_->MultiRead(views, values, statuses).ok());
  for (uint64_t b = 0; b < kBuckets; ++b) EXPECT_EQ(values[b], ValueOf(KeyIn(b, 99), 1));
}

TEST_F(FirstReadTest, AMultiReadAtASnapshotMayComeNext) {
  OpenAndReadOne(0);
  std::vector<uint64_t> keys;
  for (uint64_t b = 0; b < kBuckets; ++b) keys.push_back(KeyIn(b, 99));
  Write(keys.back(), 2);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  for (const uint64_t key : keys) Write(key, 3);
  std::string rows(kBuckets * kValueBytes, '\0');
  std::vector<Code> codes(kBuckets, Code::kIncomplete);
  ASSERT_TRUE(store_->MultiReadInto(snapshot, keys, rows.data(), codes).ok());
  EXPECT_EQ(codes, std::vector<Code>(kBuckets, Code::kOk));
  for (uint64_t b = 0; b < kBuckets; ++b) {
    const uint64_t version = b == kBuckets - 1 ? 2 : 1;
    EXPECT_EQ(rows.substr(b * kValueBytes, kValueBytes), ValueOf(keys[b], version)) << b;
  }
}

TEST_F(FirstReadTest, SyncMayComeNext) {
  OpenAndReadOne(0);
  EXPECT_TRUE(store_->Sync().ok());
}

TEST_F(FirstReadTest, ClosingMayComeNext) {
  OpenAndReadOne(1);
  store_.reset();
  store_ = OpenStore(dir_.path(), options_);
  ExpectRead(KeyIn(kBuckets - 1, 17), 1);
}

// What was written to a bucket that waited is stamped when the bucket is restored, which comes
// before the snapshot is taken.
TEST_F(FirstReadTest, ASnapshotShowsWhatWasWrittenToWaitingBuckets) {
  OpenAndReadOne(0);
  const uint64_t key = KeyIn(kBuckets - 1, kRecords);
  Write(key, 2);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  std::string value;
  const Status status = store_->Read(snapshot, KeyOf(key), &value);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(value, ValueOf(key, 2));
}

TEST_F(FirstReadTest, CallsOfAllKindsComeAtOnce) {
  for (uint64_t round = 2; round < 12; ++round) {
    store_ = OpenStore(dir_.path(), options_);
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    const auto start = [&](auto work) {
      threads.emplace_back([&go, work] {
        while (!go) std::this_thread::yield();
        work();
      });
    };
    for (uint64_t t = 0; t < 2; ++t) {
      start([this, t] {
        for (uint64_t i = 100; i < 300; ++i) ExpectRead(KeyIn((i + t) % kBuckets, i), 1);
      });
    }
    start([this, round] {
      for (uint64_t b = 0; b < kBuckets; ++b) {
        Write(KeyIn(b, 0), round);
        ExpectRead(KeyIn(b, 0), round);
      }
    });
    start([this] {
      Snapshot snapshot;
      ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
      EXPECT_EQ(CountOf([&](const auto& visit) { return store_->Range(snapshot, "", "", visit); }),
                kBuckets * kRecords);
    });
    start([this] {
      EXPECT_EQ(CountOf([&](const auto& visit) { return store_->Range("", "", visit); }),
                kBuckets * kRecords);
    });
    go = true;
    for (std::thread& thread : threads) thread.join();
    for (uint64_t b = 0; b < kBuckets; ++b) ExpectRead(KeyIn(b, 0), round);
    store_.reset();
  }
}

}  // namespace
}  // namespace engine_race::test

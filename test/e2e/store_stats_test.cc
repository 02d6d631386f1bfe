// Store::Stats and Store::Latencies: exact after a known load of many threads.
#include "engine_race/store_stats.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/op_stats.h"
#include "engine_race/stats_fields.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/eventually.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kThreads = 8;
constexpr uint64_t kKeysPerThread = Sized(400, 100);
constexpr uint64_t kStatsKeys = kThreads * kKeysPerThread;

// What one thread does with its keys: each is written twice and deleted if it is divisible by four.
void WriteKeys(Store* store, uint32_t thread) {
  for (uint64_t key = thread; key < kStatsKeys; key += kThreads) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 2)).ok());
    if (key % 4 == 0) {
      ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
    }
  }
}

// Every key is read once in each way. A quarter of them is not found.
void ReadKeys(Store* store, uint32_t thread) {
  std::vector<std::string> keys;
  std::vector<uint64_t> numbers;
  for (uint64_t key = thread; key < kStatsKeys; key += kThreads) {
    std::string value;
    EXPECT_EQ(store->Read(KeyOf(key), &value).ok(), key % 4 != 0);
    numbers.push_back(key);
    keys.push_back(KeyOf(key));
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<std::string> values(views.size());
  std::vector<Status> statuses(views.size());
  ASSERT_TRUE(store->MultiRead(views, values, statuses).ok());
  std::vector<char> rows(numbers.size() * kValueBytes);
  std::vector<Code> codes(numbers.size());
  ASSERT_TRUE(store->MultiReadInto(numbers, rows.data(), codes).ok());
  std::atomic<uint64_t> done_count{0};
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(store->ReadAsync(keys[i], &values[i], [&](const Status&) { ++done_count; }).ok());
  }
  EXPECT_TRUE(Eventually([&] { return done_count == keys.size(); }));
  uint64_t visited_count = 0;
  EXPECT_TRUE(
      store->Range("", "", [&](std::string_view, std::string_view) { ++visited_count; }).ok());
  EXPECT_EQ(visited_count, kStatsKeys - kStatsKeys / 4);
}

void ExpectCountsOfTheLoad(const StoreStats& stats) {
  EXPECT_EQ(stats.write_count, 2 * kStatsKeys);
  EXPECT_EQ(stats.delete_count, kStatsKeys / 4);
  EXPECT_EQ(stats.read_count, kStatsKeys);
  EXPECT_EQ(stats.multi_read_count, 2 * kThreads);
  EXPECT_EQ(stats.multi_read_key_count, 2 * kStatsKeys);
  EXPECT_EQ(stats.async_read_count, kStatsKeys);
  EXPECT_EQ(stats.read_not_found_count, kStatsKeys);  // a quarter in each of four ways
  EXPECT_EQ(stats.range_count, kThreads);
  EXPECT_EQ(stats.range_record_count, kThreads * (kStatsKeys - kStatsKeys / 4));
  EXPECT_EQ(stats.written_value_bytes(), 2 * kStatsKeys * kValueBytes);
  EXPECT_EQ(stats.read_value_bytes(), (3 * kStatsKeys + stats.range_record_count) * kValueBytes);
  EXPECT_EQ(stats.error_counts, (std::array<uint64_t, kCodeCount>{}));
}

TEST(StoreStatsTest, EveryCallOfManyThreadsIsCounted) {
  TempDir dir;
  Options options = TinyOptions();
  options.latency_stats = true;
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  RunThreads(kThreads, [&](uint32_t thread) { WriteKeys(store.get(), thread); });
  RunThreads(kThreads, [&](uint32_t thread) { ReadKeys(store.get(), thread); });
  ASSERT_TRUE(store->Sync().ok());
  const StoreStats stats = store->Stats();
  ExpectCountsOfTheLoad(stats);
  EXPECT_EQ(stats.sync_count, 1u);
  EXPECT_GE(stats.log_written_bytes, 2 * kStatsKeys * kValueBytes);
  EXPECT_GT(stats.uptime_us, 0u);

  const StoreLatencies latencies = store->Latencies();
  EXPECT_TRUE(latencies.measured);
  EXPECT_EQ(latencies.Of(LatencyKind::kWrite).count(), stats.write_count + stats.delete_count);
  EXPECT_EQ(latencies.Of(LatencyKind::kRead).count(), stats.read_count);
  EXPECT_EQ(latencies.Of(LatencyKind::kMultiRead).count(), stats.multi_read_count);
  EXPECT_EQ(latencies.Of(LatencyKind::kAsyncRead).count(), stats.async_read_count);
  EXPECT_EQ(latencies.Of(LatencyKind::kRange).count(), stats.range_count);
  EXPECT_EQ(latencies.Of(LatencyKind::kSync).count(), 1u);
  // Work in the background may flush between the two reads.
  EXPECT_TRUE(Eventually([&] {
    const uint64_t flush_count = store->Stats().flush_count;
    return store->Latencies().Of(LatencyKind::kFlush).count() == flush_count;
  }));
  EXPECT_GT(latencies.Of(LatencyKind::kGroupWrite).count(), 0u);
  EXPECT_GT(latencies.Of(LatencyKind::kRead).sum_ns(), 0u);
}

TEST(StoreStatsTest, SnapshotsAndIteratorsAreCounted) {
  TempDir dir;
  const auto store = OpenStore(dir.path(), TinyOptions());
  ASSERT_NE(store, nullptr);
  for (uint64_t key = 0; key < 10; ++key) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
  }
  Snapshot snapshot;
  ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
  std::string value;
  ASSERT_TRUE(store->Read(snapshot, KeyOf(3), &value).ok());
  std::vector<char> row(kValueBytes);
  ASSERT_TRUE(store->ReadInto(snapshot, 4, row.data()).ok());
  ASSERT_TRUE(store->Range(snapshot, KeyOf(2), KeyOf(7), [](auto, auto) {}).ok());
  for (int i = 0; i < 3; ++i) {
    Iterator iterator;
    ASSERT_TRUE(store->NewIterator({}, &iterator).ok());
  }
  const StoreStats stats = store->Stats();
  EXPECT_EQ(stats.snapshot_count, 1u);
  EXPECT_EQ(stats.iterator_count, 3u);
  EXPECT_EQ(stats.read_count, 2u);
  EXPECT_EQ(stats.range_count, 1u);
  EXPECT_EQ(stats.range_record_count, 5u);
}

TEST(StoreStatsTest, FailuresAreCountedByCode) {
  TempDir dir;
  const auto store = OpenStore(dir.path(), TinyOptions());
  ASSERT_NE(store, nullptr);
  std::string value;
  EXPECT_FALSE(store->Write("short", ValueOf(1, 1)).ok());
  EXPECT_FALSE(store->Write(KeyOf(1), "short").ok());
  EXPECT_FALSE(store->Read("short", &value).ok());
  EXPECT_FALSE(store->ReadAsync("short", &value, [](const Status&) {}).ok());
  const std::vector<std::string_view> keys = {"short"};
  std::vector<std::string> values(1);
  std::vector<Status> statuses(1);
  EXPECT_TRUE(store->MultiRead(keys, values, statuses).ok());
  EXPECT_FALSE(store->MultiRead(keys, {}, statuses).ok());
  const StoreStats stats = store->Stats();
  EXPECT_EQ(stats.error_counts[static_cast<size_t>(Code::kInvalidArgument)], 6u);
  EXPECT_EQ(stats.write_count, 0u);
  EXPECT_EQ(stats.read_count, 0u);
  EXPECT_EQ(stats.async_read_count, 0u);
  EXPECT_EQ(stats.multi_read_count, 1u);
  EXPECT_EQ(stats.multi_read_key_count, 0u);
}

TEST(StoreStatsTest, NothingIsMeasuredUnlessAskedFor) {
  TempDir dir;
  const auto store = OpenStore(dir.path(), TinyOptions());
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
  const StoreLatencies latencies = store->Latencies();
  EXPECT_FALSE(latencies.measured);
  for (const LatencyHistogram& histogram : latencies.kinds) EXPECT_EQ(histogram.count(), 0u);
}

// Reads that find their key become reads that do not, while the stats are copied.
TEST(StoreStatsTest, CountsOnlyGrowWhileThreadsCount) {
  constexpr uint64_t kRounds = Sized(2000, 300);
  OpStats stats(/*latencies=*/false);
  std::atomic<bool> is_over{false};
  RunThreads(3, [&](uint32_t thread) {
    if (thread > 0) {
      for (uint64_t i = 0; !is_over; ++i) {
        const Code code = (i / 1000) % 8 == 0 ? Code::kOk : Code::kNotFound;
        stats.Count(OpCounter::kReadsFound, code);
        stats.Count(OpCounter::kMultiReadKeysFound, code);
        stats.Count(OpCounter::kAsyncReadsFound, code);
      }
      return;
    }
    StoreStats before;
    for (uint64_t round = 0; round < kRounds; ++round) {
      StoreStats now;
      SetCounts(stats.counters, &now);
      for (const StatsField& field : StatsFields()) {
        if (!field.is_counter()) continue;
        EXPECT_GE(field.get(now), field.get(before)) << field.name;
      }
      EXPECT_GE(now.read_count + now.multi_read_key_count + now.async_read_count,
                now.read_not_found_count);
      before = now;
    }
    is_over = true;
  });
}

// The journal's flushes, too.
TEST(StoreStatsTest, EachFlushIsCountedAndMeasured) {
  TempDir dir(FastParent());
  Options options = TinyOptions();
  options.sync_mode = SyncMode::kGroup;
  options.latency_stats = true;
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  for (uint64_t key = 0; key < 20; ++key) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
  }
  ASSERT_TRUE(store->Sync().ok());
  const StoreStats stats = store->Stats();
  EXPECT_GE(stats.flush_count, 20u);
  EXPECT_EQ(store->Latencies().Of(LatencyKind::kFlush).count(), stats.flush_count);
}

// The names of this process's threads that the engine has named, without the numbers behind them.
std::set<std::string> EngineThreads() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    EXPECT_LE(name.size(), 15u);
    if (name.starts_with("er-"))
      names.insert(name.substr(0, name.find_last_not_of("-0123456789") + 1));
  }
  return names;
}

TEST(StoreStatsTest, TheThreadsOfAStoreHaveNames) {
  TempDir dir(FastParent());  // Each write is flushed.
  Options options = TinyOptions();
  options.sync_mode = SyncMode::kGroup;
  options.io_backend = IoBackend::kPsync;
  options.stats_interval_ms = 1000;
  // A thread that was joined stays in /proc a little longer.
  ASSERT_TRUE(Eventually([] { return EngineThreads().empty(); }));
  {
    const auto store = OpenStore(dir.path(), options);
    ASSERT_NE(store, nullptr);
    constexpr uint64_t kMany = 600;  // more than a scan reads for itself
    for (uint64_t key = 0; key < kMany; ++key) {
      ASSERT_TRUE(store->Write(KeyOf(key << 52), ValueOf(key << 52, 1)).ok());
    }
    std::string value;
    std::atomic<bool> is_done{false};
    ASSERT_TRUE(store->ReadAsync(KeyOf(0), &value, [&](const Status&) { is_done = true; }).ok());
    EXPECT_EQ(RangeOf(store.get(), "", "").size(), kMany);
    Snapshot snapshot;
    ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
    for (uint64_t key = 0; key < kMany; ++key) {
      ASSERT_TRUE(store->Write(KeyOf(key << 52), ValueOf(key << 52, 2)).ok());
    }
    snapshot.Release();
    const std::set<std::string> wanted = {"er-checkpoint", "er-keeper", "er-pread", "er-read",
                                          "er-reclaim",    "er-scan",   "er-stats"};
    EXPECT_TRUE(Eventually([&] { return is_done && EngineThreads() == wanted; }))
        << testing::PrintToString(EngineThreads());
  }
  EXPECT_TRUE(Eventually([] { return EngineThreads().empty(); }));
}

}  // namespace
}  // namespace engine_race::test

// Store::Write of batches: what readers, snapshots and iterators see of them, and what a kill
// leaves.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include "test/e2e/engine_fixture.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

// Batches of these tests put one version under all of their keys, which lie in all buckets. So a
// state that has more than one version has a part of a batch.
constexpr uint64_t kSpread = 24;
uint64_t BatchKey(uint64_t i) { return i * (~uint64_t{0} / kSpread); }

WriteBatch SpreadBatch(uint64_t version) {
  WriteBatch batch;
  for (uint64_t i = 0; i < kSpread; ++i) {
    EXPECT_TRUE(batch.Put(KeyOf(BatchKey(i)), ValueOf(BatchKey(i), version)).ok());
  }
  return batch;
}

// The one version of all keys; 0 when there is none of them.
uint64_t OneVersion(const Versions& seen) {
  if (seen.empty()) return 0;
  EXPECT_EQ(seen.size(), kSpread);
  for (const auto& [key, version] : seen) EXPECT_EQ(version, seen[0].second) << key;
  return seen[0].second;
}

TEST(StoreBatchTest, IsReadBackAndCounted) {
  const TempDir dir;
  const auto store = OpenStore(dir.path(), TinyOptions());
  ASSERT_TRUE(store->Write(KeyOf(7), ValueOf(7, 1)).ok());
  WriteBatch batch = SpreadBatch(5);
  ASSERT_TRUE(batch.Delete(KeyOf(7)).ok());
  ASSERT_TRUE(batch.Delete(KeyOf(BatchKey(3))).ok());
  ASSERT_TRUE(batch.Put(KeyOf(BatchKey(4)), ValueOf(BatchKey(4), 6)).ok());
  ASSERT_TRUE(store->Write(batch).ok());
  std::map<uint64_t, uint64_t> wanted;
  for (uint64_t i = 0; i < kSpread; ++i) wanted[BatchKey(i)] = i == 4 ? 6 : 5;
  wanted.erase(BatchKey(3));
  ExpectHolds(store.get(), wanted);
  // Again, now that the index hears of each record.
  ASSERT_TRUE(store->Write(SpreadBatch(7)).ok());
  EXPECT_EQ(OneVersion(RangeOf(store.get(), "", "")), 7u);
  const StoreStats stats = store->Stats();
  EXPECT_EQ(stats.record_count, 1 + kSpread + 3 + kSpread);
  EXPECT_EQ(stats.write_count, 1 + kSpread + 1 + kSpread);
  EXPECT_EQ(stats.delete_count, 2u);
  EXPECT_TRUE(store->Write(WriteBatch()).ok());
}

TEST(StoreBatchTest, AKeyOutsideOfTheStoreRefusesAllOfIt) {
  const TempDir dir;
  Options options = TinyOptions();
  options.key_range = KeyRange{100, 1000};
  const auto store = OpenStore(dir.path(), options);
  WriteBatch batch;
  ASSERT_TRUE(batch.Put(KeyOf(200), ValueOf(200, 1)).ok());
  ASSERT_TRUE(batch.Put(KeyOf(99), ValueOf(99, 1)).ok());
  EXPECT_EQ(store->Write(batch).code(), Code::kInvalidArgument);
  EXPECT_EQ(VersionOf(store.get(), 200), 0u);
}

// Many records of one bucket: the index makes room for all of them before any is there.
TEST(StoreBatchTest, TheIndexTakesManyRecordsOfOneBucket) {
  const TempDir dir;
  Options options = TinyOptions();
  options.value_group_bytes = 128 << 10;
  const auto store = OpenStore(dir.path(), options);
  ASSERT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
  EXPECT_EQ(VersionOf(store.get(), 1), 1u);
  Snapshot snapshot;
  std::map<uint64_t, uint64_t> wanted;
  std::mt19937_64 random(5);
  for (uint64_t version = 2; version < 40; ++version) {
    if (version % 6 == 0) {
      ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
    }
    WriteBatch batch;
    for (int i = 0; i < 150; ++i) {
      const uint64_t key = random() % 2000;
      ASSERT_TRUE(batch.Put(KeyOf(key), ValueOf(key, version)).ok());
      wanted[key] = version;
    }
    ASSERT_TRUE(store->Write(batch).ok());
  }
  if (!wanted.contains(1)) wanted[1] = 1;
  ExpectHolds(store.get(), wanted);
}

TEST(StoreBatchTest, NoSnapshotAndNoIteratorShowsAPart) {
  const TempDir dir;
  const auto store = OpenStore(dir.path(), TinyOptions());
  ASSERT_TRUE(store->Write(SpreadBatch(1)).ok());
  EXPECT_EQ(VersionOf(store.get(), BatchKey(1)), 1u);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> next{2};
  std::vector<std::thread> writers(2);
  for (std::thread& writer : writers) {
    writer = std::thread([&] {
      while (!stop) ASSERT_TRUE(store->Write(SpreadBatch(next++)).ok());
    });
  }
  std::string value;
  for (uint64_t round = 0; round < Sized(PartOf(4000, 4), 200); ++round) {
    Snapshot snapshot;
    ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
    Versions seen;
    for (uint64_t i = 0; i < kSpread; ++i) {
      uint64_t version = 0;
      ASSERT_TRUE(store->Read(snapshot, KeyOf(BatchKey(i)), &value).ok());
      ASSERT_TRUE(ParseValue(BatchKey(i), value, &version));
      seen.emplace_back(BatchKey(i), version);
    }
    const uint64_t of_snapshot = OneVersion(seen);
    Iterator iterator;
    ASSERT_TRUE(store->NewIterator({}, &iterator).ok());
    seen.clear();
    for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
      AddVisit(iterator.key(), iterator.value(), &seen);
    }
    ASSERT_TRUE(iterator.status().ok());
    OneVersion(seen);
    EXPECT_NE(of_snapshot, 0u);
    if (HasFailure()) break;
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
}

// A child writes batches until it is killed at some moment, again and again on one store.
TEST(StoreBatchTest, AKilledStoreHasTheLastBatchOrTheOneUnderWay) {
  const TempDir dir{FastParent()};
  void* const shared =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const acknowledged = new (shared) std::atomic<uint64_t>(0);
  std::mt19937_64 random(std::random_device{}());
  for (uint64_t round = 0; round < Sized(PartOf(120, 3), 15) && !HasFailure(); ++round) {
    Options options = TinyOptions();
    if (round % 8 == 7) options.sync_mode = SyncMode::kGroup;
    options.journal_bytes = kMinJournalBytes;
    const uint64_t before = acknowledged->load();
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto store = OpenStore(dir.path(), options);
      for (uint64_t version = before + 1; store != nullptr; ++version) {
        if (!store->Write(SpreadBatch(version)).ok()) ::_exit(1);
        acknowledged->store(version);
      }
      ::_exit(1);
    }
    // The first batch at least, and then any moment.
    while (acknowledged->load() == before && ::waitpid(pid, nullptr, WNOHANG) == 0) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const uint64_t last = acknowledged->load();
    ASSERT_GT(last, before);
    const auto store = OpenStore(dir.path(), TinyOptions());
    const uint64_t version = OneVersion(RangeOf(store.get(), "", ""));
    EXPECT_TRUE(version == last || version == last + 1) << version << " after " << last;
    acknowledged->store(version);
  }
  ::munmap(shared, 4096);
}

}  // namespace
}  // namespace engine_race::test

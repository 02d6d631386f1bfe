// Scans beside each other: one pass over the device for all, and nobody stopped by anybody.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include "test/eventually.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

using std::chrono::milliseconds;

// A gate that visitors stand at until it is opened.
class Gate {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitForWaiting(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, count] { return waiting_ >= count; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

// They wait for each other all along: on a loaded machine a thread would start late or fall behind.
TEST(SharedScanTest, ThreadsTogetherReadTheDeviceOnce) {
  constexpr int kThreads = 16;
  constexpr uint64_t kStepRecords = 256;
  ScanStore store(64);
  store.Fill(Sized(16000, 5000));
  store.OpenReader(std::max(8 * kMiB, store.live_bytes() / 4));
  for (int pass = 0; pass < 2; ++pass) {
    const uint64_t before = store.reader->read_bytes();
    std::barrier step(kThreads);
    RunThreads(kThreads, [&](int) {
      ModelVisitor visitor(store.model);
      uint64_t count = 0;
      const auto visit = [&](uint64_t key, const char* value) {
        if (count++ % kStepRecords == 0) step.arrive_and_wait();
        visitor(key, value);
      };
      EXPECT_TRUE(store.Scan(0, ~uint64_t{0}, visit).ok());
      EXPECT_TRUE(visitor.complete());
    });
    // Once, and superseded values that lie between.
    EXPECT_LE(store.reader->read_bytes() - before, store.live_bytes() * 5 / 4);
  }
}

TEST(SharedScanTest, ManyScansOfDifferentPartsWithLittleMemory) {
  ScanStore store(8);
  store.Fill(Sized(8000, 3000));
  store.OpenReader(1);  // clamped to the least there is
  RunThreads(static_cast<int>(Sized(200, 60)), [&](int i) {
    std::mt19937_64 random(static_cast<uint64_t>(i));
    const uint64_t first = random();
    ExpectScanMatches(store, first / 2, first / 2 + (~uint64_t{0} / 4));
  });
}

TEST(SharedScanTest, ALateStarterSeesEverything) {
  ScanStore store(32);
  store.Fill(Sized(10000, 4000));
  store.OpenReader(8 * kMiB);
  Gate half_way;
  std::thread early([&] {
    ModelVisitor visitor(store.model);
    uint64_t count = 0;
    EXPECT_TRUE(store
                    .Scan(0, ~uint64_t{0},
                          [&](uint64_t key, const char* value) {
                            visitor(key, value);
                            if (++count == store.model.size() / 2) half_way.Wait();
                          })
                    .ok());
    EXPECT_TRUE(visitor.complete());
  });
  half_way.WaitForWaiting(1);
  std::atomic<bool> late_has_begun{false};
  std::thread late([&] {
    ModelVisitor visitor(store.model);
    const auto visit = [&](uint64_t key, const char* value) {
      visitor(key, value);
      late_has_begun = true;
    };
    EXPECT_TRUE(store.Scan(0, ~uint64_t{0}, visit).ok());
    EXPECT_TRUE(visitor.complete());
  });
  EXPECT_TRUE(Eventually([&] { return late_has_begun.load(); }));
  half_way.Open();
  early.join();
  late.join();
}

TEST(SharedScanTest, AVisitorThatBlocksStopsNobody) {
  ScanStore store(32);
  store.Fill(Sized(10000, 4000));
  store.OpenReader(8 * kMiB);
  Gate gate;
  std::vector<std::thread> blocked;
  for (int i = 0; i < 4; ++i) {
    blocked.emplace_back([&, i] {
      ModelVisitor visitor(store.model);
      uint64_t count = 0;
      const uint64_t block_at = 1 + static_cast<uint64_t>(i) * store.model.size() / 5;
      EXPECT_TRUE(store
                      .Scan(0, ~uint64_t{0},
                            [&](uint64_t key, const char* value) {
                              if (++count == block_at) gate.Wait();
                              visitor(key, value);
                            })
                      .ok());
      EXPECT_TRUE(visitor.complete());
    });
  }
  gate.WaitForWaiting(4);
  RunThreads(4, [&](int) { ExpectScanMatches(store); });
  gate.Open();
  for (std::thread& thread : blocked) thread.join();
}

TEST(SharedScanTest, AllMemoryHeldByBlockedVisitorsStopsNobody) {
  ScanStore store(16);
  store.Fill(Sized(8000, 4000));
  store.OpenReader(8 * kMiB);
  Gate gate;
  std::vector<std::thread> blocked;
  const int count = 16;
  for (int i = 0; i < count; ++i) {
    blocked.emplace_back([&, i] {
      const uint64_t first = static_cast<uint64_t>(i) << 60;
      bool waited = false;
      EXPECT_TRUE(store
                      .Scan(first, first + (uint64_t{1} << 60) - 1,
                            [&](uint64_t, const char*) {
                              if (!waited) gate.Wait();
                              waited = true;
                            })
                      .ok());
    });
  }
  gate.WaitForWaiting(count);
  ExpectScanMatches(store);
  gate.Open();
  for (std::thread& thread : blocked) thread.join();
  ExpectScanMatches(store);
}

TEST(SharedScanTest, ASlowVisitorSeesEverythingWhileOthersGoAhead) {
  ScanStore store(32);
  store.Fill(6000);
  store.OpenReader(8 * kMiB);
  std::atomic<bool> is_halfway{false};
  std::atomic<bool> others_done{false};
  std::thread slow([&] {
    ModelVisitor visitor(store.model);
    const auto visit = [&](uint64_t key, const char* value) {
      visitor(key, value);
      if (visitor.count != 3000) return;
      is_halfway = true;
      EXPECT_TRUE(Eventually([&] { return others_done.load(); }));
    };
    EXPECT_TRUE(store.Scan(0, ~uint64_t{0}, visit).ok());
    EXPECT_TRUE(visitor.complete());
  });
  // The others pass the slow one while it waits in the middle.
  RunThreads(4, [&](int) { ExpectScanMatches(store); });
  EXPECT_TRUE(Eventually([&] { return is_halfway.load(); }));
  ExpectScanMatches(store);
  others_done = true;
  slow.join();
}

TEST(SharedScanTest, WhatAVisitorThrowsLeavesTheScan) {
  ScanStore store(16);
  store.Fill(4000);
  store.OpenReader(8 * kMiB);
  RunThreads(8, [&](int i) {
    uint64_t count = 0;
    const uint64_t throw_at = 1 + static_cast<uint64_t>(i) * 400;
    const auto scan = [&] {
      return store.Scan(0, ~uint64_t{0}, [&](uint64_t, const char*) {
        if (++count == throw_at) throw std::runtime_error("enough");
      });
    };
    EXPECT_THROW((void)scan(), std::runtime_error);
    EXPECT_EQ(throw_at, count);
  });
  ExpectScanMatches(store);
  // A short one too.
  uint64_t first = store.model.begin()->first;
  const auto scan = [&] {
    return store.Scan(first, first, [](uint64_t, const char*) { throw std::bad_alloc(); });
  };
  EXPECT_THROW((void)scan(), std::bad_alloc);
}

TEST(SharedScanTest, AVisitorMayScanAgain) {
  ScanStore store(16);
  store.Fill(Sized(6000, 2500));
  store.OpenReader(8 * kMiB);
  RunThreads(4, [&](int i) {
    ModelVisitor visitor(store.model);
    uint64_t count = 0;
    EXPECT_TRUE(store
                    .Scan(0, ~uint64_t{0},
                          [&](uint64_t key, const char* value) {
                            if (++count % 1000 == static_cast<uint64_t>(i)) {
                              ExpectScanMatches(store);
                              ExpectScanMatches(store, key, key);
                            }
                            visitor(key, value);
                          })
                    .ok());
    EXPECT_TRUE(visitor.complete());
  });
}

TEST(SharedScanTest, AVisitorMayWriteAndItsLaterScansSeeIt) {
  ScanStore store(16);
  store.Fill(3000);
  store.OpenReader(8 * kMiB);
  const std::map<uint64_t, uint64_t> before = store.model;
  ModelVisitor visitor(before);
  uint64_t count = 0;
  EXPECT_TRUE(store
                  .Scan(0, ~uint64_t{0},
                        [&](uint64_t key, const char* value) {
                          // Behind the scan, so that it does not meet its own writes.
                          if (++count % 500 == 0) store.Put(key, 9);
                          visitor(key, value);
                        })
                  .ok());
  EXPECT_TRUE(visitor.complete());
  ExpectScanMatches(store);
}

// Each key's version only grows, and is noted before and after each write: a scan must see at
// least what was acknowledged before it began.
TEST(SharedScanTest, ScansBesideWritersSeeWhatWasAcknowledgedBefore) {
  ScanStore store(8);
  const uint64_t key_count = Sized(3000, 1000);
  store.Fill(key_count);
  store.OpenReader(8 * kMiB);
  std::map<uint64_t, uint64_t> number_of;
  std::vector<std::atomic<uint64_t>> acknowledged(key_count);
  std::vector<std::atomic<uint64_t>> attempted(key_count);
  for (uint64_t i = 0; i < key_count; ++i) {
    number_of[SpreadKey(i)] = i;
    acknowledged[i] = attempted[i] = 1;
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (uint64_t w = 0; w < 2; ++w) {
    writers.emplace_back([&, w] {
      std::mt19937_64 random(w);
      while (!stop.load()) {
        const uint64_t number = random() % (key_count / 2) * 2 + w;
        const uint64_t version = acknowledged[number] + 1;
        attempted[number] = version;
        const std::string value = ValueOf(SpreadKey(number), version);
        ASSERT_TRUE(store.log->Append(SpreadKey(number), value.data()).ok());
        acknowledged[number] = version;
        if (version % 64 == 0) std::this_thread::sleep_for(milliseconds(1));
      }
    });
  }
  RunThreads(6, [&](int) {
    for (int round = 0; round < 6; ++round) {
      std::vector<uint64_t> least(key_count);
      for (uint64_t i = 0; i < key_count; ++i) least[i] = acknowledged[i];
      uint64_t count = 0;
      uint64_t bad = 0;
      uint64_t previous = 0;
      EXPECT_TRUE(store
                      .Scan(0, ~uint64_t{0},
                            [&](uint64_t key, const char* value) {
                              uint64_t version = 0;
                              const auto number = number_of.find(key);
                              const bool good = number != number_of.end() &&
                                                (count == 0 || key > previous) &&
                                                ParseValue(key, {value, kValueBytes}, &version) &&
                                                version >= least[number->second] &&
                                                version <= attempted[number->second];
                              if (!good) ++bad;
                              previous = key;
                              ++count;
                            })
                      .ok());
      EXPECT_EQ(key_count, count);
      EXPECT_EQ(0u, bad);
    }
  });
  stop = true;
  for (std::thread& thread : writers) thread.join();
}

TEST(SharedScanTest, ManyShortRangesAtOnceReadLittle) {
  ScanStore store(16);
  store.Fill(Sized(8000, 3000));
  store.OpenReader(8 * kMiB);
  std::vector<uint64_t> keys;
  for (const auto& [key, version] : store.model) keys.push_back(key);
  const uint64_t rounds = 20;
  const uint64_t width = 10;
  RunThreads(32, [&](int i) {
    std::mt19937_64 random(static_cast<uint64_t>(i));
    for (uint64_t round = 0; round < rounds; ++round) {
      const uint64_t at = random() % (keys.size() - width);
      ExpectScanMatches(store, keys[at], keys[at + width - 1]);
    }
  });
  // What lies close together in the log is read in one go, gaps and all.
  EXPECT_LE(store.reader->read_bytes(), 32 * rounds * 3 * width * kValueBytes);
}

TEST(SharedScanTest, TheReaderMayGoWhileChunksAreReadAhead) {
  ScanStore store(64);
  store.Fill(Sized(8000, 3000));
  for (int round = 0; round < 10; ++round) {
    store.OpenReader(64 * kMiB);
    const auto scan = [&] {
      return store.Scan(0, ~uint64_t{0}, [](uint64_t, const char*) { throw 1; });
    };
    EXPECT_THROW((void)scan(), int);
  }
}

}  // namespace
}  // namespace engine_race::test

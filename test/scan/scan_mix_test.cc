// Fast scans beside slow, stuck, throwing and nested ones: how many chunks are loaded for others
// while one waits for its next has a bound, whatever the mix.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/scan/coordinator.h"
#include "test/eventually.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

struct Mix {
  explicit Mix(uint64_t seed) : random(seed) {
    bucket_count = uint32_t{4} << random() % 5;
    budget_bytes = kMiB * (uint64_t{8} << random() % 3);
    slow_count = static_cast<int>(random() % 12);
    stuck_count = static_cast<int>(random() % 6);
    throwing_count = static_cast<int>(random() % 3);
    nesting_count = static_cast<int>(random() % 3);
  }
  int scan_count() const {
    return kFastCount + slow_count + stuck_count + throwing_count + 2 * nesting_count;
  }

  static constexpr int kFastCount = 3;
  std::mt19937_64 random;
  uint32_t bucket_count;
  uint64_t budget_bytes;
  int slow_count;
  int stuck_count;
  int throwing_count;
  int nesting_count;
};

// A scan from somewhere to the end, again and again until `stop`, by a thread of its own.
template <typename Visit>
std::thread RepeatScan(const ScanStore& store, uint64_t first_key, const std::atomic<bool>& stop,
                       const Visit& visit) {
  return std::thread([&store, first_key, &stop, visit = Visit(visit)]() mutable {
    while (!stop.load()) {
      try {
        (void)store.Scan(first_key, UINT64_MAX, [&](uint64_t key, const char*) {
          visit(key);
          if (stop.load()) throw std::runtime_error("over");
        });
      } catch (const std::runtime_error&) {
      }
    }
  });
}

class ScanMixTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ScanMixTest, TheGapOfAFastScanIsBoundedInChunks) {
  Mix mix(GetParam());
  ScanStore store(mix.bucket_count);
  store.Fill(Sized(6000, 2500));
  store.OpenReader(mix.budget_bytes);
  std::atomic<bool> stop{false};
  // Scans that must begin: one whose first key is behind all records visits nothing.
  std::atomic<int> beginning_count{0};
  std::vector<std::thread> threads;
  const auto add = [&](const auto& visit) {
    const uint64_t first_key = mix.random();
    const bool must_begin = first_key <= store.model.rbegin()->first;
    if (must_begin) ++beginning_count;
    const auto count_and_visit = [&beginning_count, visit = visit,
                                  is_counted = !must_begin](uint64_t key) mutable {
      if (!std::exchange(is_counted, true)) --beginning_count;
      visit(key);
    };
    threads.push_back(RepeatScan(store, first_key, stop, count_and_visit));
  };
  for (int i = 0; i < mix.slow_count; ++i) {
    add([](uint64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  }
  for (int i = 0; i < mix.stuck_count; ++i) {
    const uint64_t stick_at = mix.random() % 1000;
    add([&stop, stick_at, count = uint64_t{0}](uint64_t) mutable {
      if (++count == stick_at) stop.wait(false);
    });
  }
  for (int i = 0; i < mix.throwing_count; ++i) {
    add([](uint64_t key) {
      if (key % 64 == 0) throw std::runtime_error("enough");
    });
  }
  for (int i = 0; i < mix.nesting_count; ++i) {
    add([&store, count = uint64_t{0}](uint64_t key) mutable {
      if (++count % 500 == 0) (void)store.Scan(key / 2, key, [](uint64_t, const char*) {});
    });
  }
  EXPECT_TRUE(Eventually([&] { return beginning_count == 0; }));

  RunThreads(Mix::kFastCount, [&](int) {
    ModelVisitor visitor(store.model);
    const Status status = store.Scan(0, UINT64_MAX, visitor);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(visitor.complete()) << visitor.count << " visited";
  });
  stop = true;
  stop.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(store.reader->UseCount(), 0u);
  EXPECT_LE(store.reader->longest_wait_chunks(),
            ScanWaits::kChunks + static_cast<uint64_t>(mix.scan_count()));
}

// More scans stand still in their last chunk than there is memory for, so that some are called back
// from it: each must see the rest of its records.
TEST(RecalledScanTest, AScanCalledBackFromItsLastChunkSeesTheRest) {
  constexpr int kScans = 61;
  constexpr uint64_t kBucketKeys = uint64_t{1} << 58;
  ScanStore store(64);
  store.Fill(Sized(12800, 6400));
  store.OpenReader(8 * kMiB);
  std::atomic<int> standing{0};
  std::atomic<bool> go_on{false};
  std::atomic<int> incomplete{0};
  const auto scan = [&](int bucket) {
    const uint64_t first = static_cast<uint64_t>(bucket) * kBucketKeys;
    ModelVisitor visitor(store.model, first, first + kBucketKeys - 1);
    bool stood = false;
    const Status status =
        store.Scan(first, first + kBucketKeys - 1, [&](uint64_t key, const char* value) {
          visitor(key, value);
          if (stood) return;
          stood = true;
          ++standing;
          go_on.wait(false);
        });
    if (!status.ok() || !visitor.complete()) ++incomplete;
  };
  // The first one has all the memory, and so the whole bucket as its chunk.
  std::vector<std::thread> threads;
  threads.emplace_back(scan, 0);
  while (standing.load() < 1) std::this_thread::yield();
  for (int i = 1; i < kScans; ++i) threads.emplace_back(scan, i);
  while (standing.load() < kScans) std::this_thread::yield();
  go_on = true;
  go_on.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(0, incomplete.load());
}

INSTANTIATE_TEST_SUITE_P(Mixes, ScanMixTest, ::testing::Range<uint64_t>(0, Sized(16, 4)));

}  // namespace
}  // namespace engine_race::test

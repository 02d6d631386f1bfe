// Readers, writers and eviction of hot values at once.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test/e2e/hot_values_fixture.h"

namespace engine_race::test {
namespace {

class HotValuesRaceTest : public HotValuesTest {};

// Readers of every kind beside writers, over few frames. Each value carries its key and version,
// and none is older than what was acknowledged before its read began.
TEST_F(HotValuesRaceTest, ReadersBesideEvictionBesideWriters) {
  options_.hot_value_bytes = 200 << 10;
  OpenAndFill();
  std::vector<std::atomic<uint64_t>> written(kKeys);
  for (std::atomic<uint64_t>& version : written) version = 1;
  std::atomic<bool> stop{false};
  const uint64_t reads = Sized(20000, 3000);
  std::vector<std::thread> threads;
  const auto pick = [](std::mt19937_64* random) {
    return (*random)() % 4 == 0 ? (*random)() % kKeys : (*random)() % 40;
  };
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (uint64_t i = 0; i < reads; ++i) {
        const uint64_t n = pick(&random);
        const uint64_t least = written[n].load(std::memory_order_acquire);
        ASSERT_GE(Version(n), least) << n;
      }
    });
  }
  threads.emplace_back([&] {
    std::mt19937_64 random(50);
    for (uint64_t i = 0; i < reads / 50; ++i) {
      std::vector<uint64_t> numbers(50);
      std::vector<uint64_t> least(50);
      for (size_t j = 0; j < numbers.size(); ++j) {
        numbers[j] = pick(&random);
        least[j] = written[numbers[j]].load(std::memory_order_acquire);
      }
      std::vector<std::string> values;
      const std::vector<Status> statuses = MultiRead(numbers, &values);
      for (size_t j = 0; j < numbers.size(); ++j) {
        uint64_t version = 0;
        ASSERT_TRUE(statuses[j].ok());
        ASSERT_TRUE(ParseValue(NthKey(numbers[j]), values[j], &version));
        ASSERT_GE(version, least[j]);
      }
    }
  });
  std::thread writer([&] {
    std::mt19937_64 random(77);
    for (uint64_t version = 2; !stop.load() && version < 20000; ++version) {
      const uint64_t n = pick(&random);
      Write(n, version);
      written[n].store(version, std::memory_order_release);
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  writer.join();
  const StoreStats stats = store_->Stats();
  EXPECT_GT(stats.frame_hit_count, 0u);
  EXPECT_GT(stats.frame_eviction_count, 0u);
  std::map<uint64_t, uint64_t> all;
  for (uint64_t n = 0; n < kKeys; ++n) all[NthKey(n)] = written[n].load();
  ExpectHolds(store_.get(), all);
}

}  // namespace
}  // namespace engine_race::test

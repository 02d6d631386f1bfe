// Readers of a table beside others that evict its blocks.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test/harness/lab/table_ways.h"

namespace engine_race::test {
namespace {

using lab::Table;

// Readers of all kinds, each checking every byte, while others make their blocks go.
class L1TableReadersTest : public ::testing::TestWithParam<Way> {};

TEST_P(L1TableReadersTest, ReadersFindEverythingWhileBlocksComeAndGo) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(FromEnvironment("L1_READERS_MS", 700));
  std::mt19937_64 random(7);
  const TableDir dir;
  const Records records = RandomRecords(KeyKind::kRandom, kLarge, 16000, &random);
  ASSERT_TRUE(dir.Build("t", kLarge, ::lab::kTreeEncoding, records).ok());
  std::vector<std::string> keys;
  for (const auto& [key, payload] : records) keys.push_back(key);
  for (const uint32_t block_count : {3, 40, 200}) {
    Memory memory(block_count);
    // Two tables share the frames; one of them goes and comes.
    std::unique_ptr<Table> table;
    ASSERT_TRUE(memory.Open(dir, OptionsOf(GetParam()), &table).ok());
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      threads.emplace_back([&, seed] {
        std::mt19937_64 mine(seed);
        const auto key = [&] { return keys[mine() % keys.size()]; };
        while (!over.load(std::memory_order_relaxed) && !testing::Test::HasFatalFailure()) {
          ExpectGet(*table, records, key());
          ExpectGet(*table, records, RandomKey(KeyKind::kRandom, 16, &mine));
          if (seed % 2 == 0) ExpectWalk(*table, records, key(), 30);
          if (seed % 2 == 1) ExpectGetAll(*table, records, {key(), key(), key(), key(), key()});
        }
      });
    }
    threads.emplace_back([&] {
      std::mt19937_64 mine(99);
      while (!over.load(std::memory_order_relaxed)) {
        std::unique_ptr<Table> other;
        const Status opened = memory.Open(dir, OptionsOf(GetParam()), &other);
        ASSERT_TRUE(opened.ok()) << opened.ToString();
        for (int i = 0; i < 50; ++i) ExpectGet(*other, records, keys[mine() % keys.size()]);
      }
    });
    const auto part = (until - std::chrono::steady_clock::now()) / (block_count == 200 ? 1 : 2);
    std::this_thread::sleep_for(part);
    over.store(true);
    for (std::thread& thread : threads) thread.join();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(L1, L1TableReadersTest,
                         testing::Values(Way::kAllCached, Way::kIndexesByPointer,
                                         Way::kAllByPointer, Way::kAllCounted,
                                         Way::kParentsSearchedFor));

}  // namespace
}  // namespace engine_race::test

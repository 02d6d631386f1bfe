// Names and numbers of threads, and the counters that use the numbers.
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/op_counters.h"
#include "engine_race/base/op_stats.h"
#include "engine_race/base/thread_name.h"
#include "engine_race/base/thread_number.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

std::string OwnName() {
  std::array<char, 64> name = {};
  EXPECT_EQ(::pthread_getname_np(::pthread_self(), name.data(), name.size()), 0);
  return name.data();
}

TEST(ThreadNameTest, AThreadHasItsNameWhenItBegins) {
  std::string plain;
  std::string numbered;
  StartThread("er-test", [&] { plain = OwnName(); }).join();
  StartThread("er-test", 12, [&] { numbered = OwnName(); }).join();
  EXPECT_EQ(plain, "er-test");
  EXPECT_EQ(numbered, "er-test-12");
}

TEST(ThreadNameTest, LongNamesAreCut) {
  std::thread([] {
    NameThread("er-sixteen-chars");
    EXPECT_EQ(OwnName(), "er-sixteen-char");
    NameThread("er-sixteen-chars", 7);
    EXPECT_EQ(OwnName(), "er-sixteen-char");
    NameThread("er-twelve-ch", 4294967295u);
    EXPECT_EQ(OwnName(), "er-twelve-ch-42");
  }).join();
}

// Runs `run` on `count` threads that are all alive at the same time.
template <typename Run>
void RunTogether(uint32_t count, const Run& run) {
  std::barrier all_alive(count);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      all_alive.arrive_and_wait();
      run(i);
      all_alive.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadNumberTest, LivingThreadsHaveDifferentNumbersAndKeepThem) {
  constexpr uint32_t kThreads = 100;
  std::array<uint32_t, kThreads> numbers = {};
  RunTogether(kThreads, [&](uint32_t i) {
    numbers[i] = ThreadNumber();
    EXPECT_EQ(ThreadNumber(), numbers[i]);
  });
  EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), kThreads);
}

TEST(ThreadNumberTest, NumbersOfThreadsThatEndedAreGivenAgain) {
  const uint32_t own = ThreadNumber();
  for (uint64_t i = 0; i < test::Sized(5000, 300); ++i) {
    uint32_t number = own;
    std::thread([&number] { number = ThreadNumber(); }).join();
    ASSERT_NE(number, own);
    ASSERT_LT(number, 100u);
  }
}

// More threads than there are lines of their own.
TEST(OpCountersTest, NothingIsLostWhenManyThreadsCount) {
  constexpr uint32_t kThreads = 300;
  constexpr uint64_t kRounds = test::Sized(2000, 200);
  OpCounters counters;
  for (int i = 0; i < 2; ++i) {
    RunTogether(kThreads, [&counters](uint32_t) {
      for (uint64_t round = 0; round < kRounds; ++round) {
        counters.Add(OpCounter::kReadsFound);
        counters.Add(OpCounter::kMultiReadKeysFound, round);
      }
    });
  }
  EXPECT_EQ(counters.Sum(OpCounter::kReadsFound), 2 * kThreads * kRounds);
  EXPECT_EQ(counters.Sum(OpCounter::kMultiReadKeysFound), kThreads * kRounds * (kRounds - 1));
  EXPECT_EQ(counters.Sum(OpCounter::kWrites), 0u);
}

// Threads whose numbers are above those of lines of their own, 64 apart, count in one line.
TEST(OpCountersTest, NothingIsLostInALineThatThreadsShare) {
  constexpr uint64_t kRounds = test::Sized(5000000, 200000);
  OpCounters counters;
  std::atomic<uint64_t> sharer_count{0};
  RunTogether(330, [&](uint32_t) {
    const uint32_t number = ThreadNumber();
    if (number < 192 || number % 64 != 5) return;
    ++sharer_count;
    while (sharer_count < 2) std::this_thread::yield();
    for (uint64_t round = 0; round < kRounds; ++round) counters.Add(OpCounter::kReadsFound);
  });
  EXPECT_GE(sharer_count, 2u);
  EXPECT_EQ(counters.Sum(OpCounter::kReadsFound), sharer_count * kRounds);
}

TEST(OpStatsTest, AnAbsentKeyIsAReadAndAFailureIsNone) {
  OpStats stats(/*latencies=*/false);
  stats.Count(OpCounter::kReadsFound, Code::kOk);
  stats.Count(OpCounter::kReadsFound, Code::kNotFound);
  stats.Count(OpCounter::kReadsFound, Code::kCorruption);
  stats.Count(OpCounter::kWrites, Code::kFull);
  stats.Count(OpCounter::kMultiReadKeysFound, Code::kNotFound);
  stats.Count(OpCounter::kAsyncReadsFound, Code::kNotFound);
  EXPECT_EQ(stats.counters.Sum(OpCounter::kReadsFound), 1u);
  EXPECT_EQ(stats.counters.Sum(OpCounter::kReadsNotFound), 1u);
  EXPECT_EQ(stats.counters.Sum(OpCounter::kMultiReadKeysFound), 0u);
  EXPECT_EQ(stats.counters.Sum(OpCounter::kMultiReadKeysNotFound), 1u);
  EXPECT_EQ(stats.counters.Sum(OpCounter::kAsyncReadsFound), 0u);
  EXPECT_EQ(stats.counters.Sum(OpCounter::kAsyncReadsNotFound), 1u);
  EXPECT_EQ(stats.counters.Sum(OpCounter::kWrites), 0u);
  EXPECT_EQ(stats.counters.Errors(Code::kCorruption), 1u);
  EXPECT_EQ(stats.counters.Errors(Code::kFull), 1u);
  EXPECT_EQ(stats.counters.Errors(Code::kNotFound), 0u);
}

}  // namespace
}  // namespace engine_race

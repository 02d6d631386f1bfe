#include "engine_race/l1/epoch.h"

#include <gtest/gtest.h>
#include <linux/membarrier.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

using l1::EpochManager;

TEST(EpochTest, WhatIsRetiredIsSafeWhenNobodyIsInside) {
  EpochManager epochs;
  const uint64_t first = epochs.Retire();
  const uint64_t second = epochs.Retire();
  EXPECT_LT(first, second);
  EXPECT_LT(second, epochs.SafeBelow());
}

TEST(EpochTest, WhoEnteredBeforeHoldsBackAndWhoEnteredAfterDoesNot) {
  EpochManager epochs;
  auto before = std::make_unique<EpochManager::Guard>(epochs);
  const uint64_t epoch = epochs.Retire();
  EXPECT_GE(epoch, epochs.SafeBelow());
  const EpochManager::Guard after(epochs);
  EXPECT_GE(epoch, epochs.SafeBelow());
  before.reset();
  EXPECT_LT(epoch, epochs.SafeBelow());
}

TEST(EpochTest, AThreadThatEntersTwiceIsInsideUntilItHasLeftTwice) {
  EpochManager epochs;
  const EpochManager::Guard outer(epochs);
  const uint64_t epoch = epochs.Retire();
  { const EpochManager::Guard inner(epochs); }
  EXPECT_GE(epoch, epochs.SafeBelow());
}

TEST(EpochTest, GuardsCountWithoutLosingAny) {
  EpochManager epochs;
  constexpr uint32_t kThreads = 8;
  constexpr uint64_t kRounds = Sized(100000, 10000);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kRounds; ++i) {
        EpochManager::Guard guard(epochs);
        guard.CountHit();
        if (i % 4 == 0) guard.CountMiss();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(epochs.TakeCounts().value_hits, kThreads * kRounds);
  EXPECT_EQ(epochs.TakeCounts().value_misses, kThreads * kRounds / 4);
}

// More guards at once than the manager has lines: the last ones wait until others leave.
TEST(EpochTest, MoreThreadsThanSlotsTakeTurns) {
  EpochManager epochs;
  constexpr uint32_t kThreads = 300;
  std::atomic<uint32_t> inside{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EpochManager::Guard guard(epochs);
        inside.fetch_add(1);
        std::this_thread::yield();
        inside.fetch_sub(1);
        guard.CountHit();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inside.load(), 0u);
  EXPECT_EQ(epochs.TakeCounts().value_hits, kThreads * 20);
  const uint64_t last = epochs.Retire();
  EXPECT_LT(last, epochs.SafeBelow());
}

// A word leads to one of a few cells. The writer moves it, and fills a cell again only when the
// epochs allow it. A reader never sees a cell change.
TEST(EpochTest, NobodyInsideSeesWhatIsUsedAgain) {
  EpochManager epochs;
  constexpr uint32_t kCells = 4;
  struct Cell {
    uint64_t words[8];  // all the same; not atomic, so that TSan sees a race
  };
  std::vector<Cell> cells(kCells);
  std::atomic<uint32_t> current{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        for (int i = 0; i < 100; ++i) {
          const EpochManager::Guard guard(epochs);
          const Cell& cell = cells[current.load(std::memory_order_seq_cst)];
          const uint64_t first = cell.words[0];
          for (const uint64_t word : cell.words) wrong += word != first;
        }
        // Outside the epoch, so that few threads are interrupted inside.
        std::this_thread::yield();
      }
    });
  }
  std::vector<uint64_t> retired(kCells, 0);
  const uint64_t rounds = Sized(2000, 500);
  for (uint64_t round = 1; round < rounds; ++round) {
    const uint32_t from = current.load(std::memory_order_relaxed);
    const uint32_t to = (from + 1) % kCells;
    while (retired[to] >= epochs.SafeBelow()) std::this_thread::yield();
    for (uint64_t& word : cells[to].words) word = round;
    current.store(to, std::memory_order_seq_cst);
    retired[from] = epochs.Retire();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
}

// Counts fences, and says that the process is not registered for them until it is. Registering can
// be refused.
class Fences : public SystemCallHook {
 public:
  explicit Fences(bool is_refused) : is_refused_(is_refused) {}

  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kMembarrier) return call->Proceed();
    if (call->flags == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
      ++register_count;
      if (is_refused_) {
        errno = ENOMEM;
        return -1;
      }
      const long result = call->Proceed();
      is_registered = result == 0;
      return result;
    }
    if (call->flags != MEMBARRIER_CMD_PRIVATE_EXPEDITED) return call->Proceed();
    if (!is_registered) {
      errno = EPERM;
      return -1;
    }
    ++fence_count;
    return call->Proceed();
  }
  std::atomic<uint64_t> register_count{0};
  std::atomic<uint64_t> fence_count{0};
  std::atomic<bool> is_registered{false};

 private:
  const bool is_refused_;
};

void EnterOften(EpochManager* epochs) {
  for (uint32_t i = 0; i < EpochManager::kEntriesBeforeFences; ++i) {
    const EpochManager::Guard guard(*epochs);
  }
}

TEST(EpochTest, WhatIsRetiredBecomesSafeWhereTheKernelRefusesFences) {
  Fences fences(/*is_refused=*/true);
  const ScopedHook hook(&fences);
  EpochManager epochs;
  const uint64_t first = epochs.Retire();
  EXPECT_LT(first, epochs.SafeBelow());
  EnterOften(&epochs);
  EnterOften(&epochs);
  EXPECT_LE(fences.register_count, 1U);
  // More threads than lines that were shared before: each finds one now.
  std::vector<std::unique_ptr<EpochManager::Guard>> inside(200);
  for (auto& guard : inside) guard = std::make_unique<EpochManager::Guard>(epochs);
  inside.clear();
  auto before = std::make_unique<EpochManager::Guard>(epochs);
  const uint64_t epoch = epochs.Retire();
  EXPECT_GE(epoch, epochs.SafeBelow());
  before.reset();
  EXPECT_LT(epoch, epochs.SafeBelow());
}

// ThreadSanitizer does not know that membarrier runs fences on other processors, so the engine does
// without it there.
#ifndef __SANITIZE_THREAD__
TEST(EpochTest, FencesRunOnceReadersEnterWithoutThem) {
  Fences fences(/*is_refused=*/false);
  const ScopedHook hook(&fences);
  EpochManager epochs;
  const uint64_t first = epochs.Retire();
  EXPECT_LT(first, epochs.SafeBelow());
  EXPECT_EQ(fences.register_count, 0U);
  EXPECT_EQ(fences.fence_count, 0U);
  EnterOften(&epochs);
  if (!fences.is_registered) GTEST_SKIP() << "no membarrier here";
  EXPECT_EQ(fences.register_count, 1U);
  const uint64_t before = fences.fence_count;
  const EpochManager::Guard inside(epochs);
  const uint64_t epoch = epochs.Retire();
  EXPECT_GE(epoch, epochs.SafeBelow());
  EXPECT_EQ(fences.fence_count, before + 1);
  // The process is registered now.
  const EpochManager later;
  EXPECT_EQ(fences.register_count, 1U);
  const uint64_t until_then = fences.fence_count;
  EXPECT_GT(later.SafeBelow(), 0U);
  EXPECT_EQ(fences.fence_count, until_then + 1);
}
#endif

}  // namespace
}  // namespace engine_race::test

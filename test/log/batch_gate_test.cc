#include "engine_race/log/batch_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <optional>

#include "test/watched_thread.h"

namespace engine_race::test {
namespace {

TEST(BatchGateTest, ACutWaitsForTheBatchesInside) {
  BatchGate gate;
  gate.Enter();
  gate.Enter();
  std::atomic<bool> cut{false};
  WatchedThread cutter([&] { gate.Cut([&] { cut = true; }); });
  EXPECT_TRUE(cutter.AwaitSleep());
  EXPECT_FALSE(cut.load());
  gate.Leave();
  EXPECT_TRUE(cutter.AwaitSleep());
  EXPECT_FALSE(cut.load());
  gate.Leave();
  cutter.Join();
  EXPECT_TRUE(cut.load());
}

TEST(BatchGateTest, BatchesWaitForACut) {
  BatchGate gate;
  std::atomic<bool> entered{false};
  std::optional<WatchedThread> batch;
  gate.Cut([&] {
    batch.emplace([&] {
      gate.Enter();
      entered = true;
      gate.Leave();
    });
    EXPECT_TRUE(batch->AwaitSleep());
    EXPECT_FALSE(entered.load());
  });
  batch->Join();
  EXPECT_TRUE(entered.load());
}

TEST(BatchGateTest, ACutThatThrowsLetsBatchesIn) {
  BatchGate gate;
  EXPECT_THROW(gate.Cut([] { throw std::bad_alloc(); }), std::bad_alloc);
  gate.Enter();
  gate.Leave();
}

}  // namespace
}  // namespace engine_race::test

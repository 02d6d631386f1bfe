#include "engine_race/log/batch_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

namespace engine_race::test {
namespace {

constexpr std::chrono::milliseconds kLong{30};

TEST(BatchGateTest, ACutWaitsForTheBatchesInside) {
  BatchGate gate;
  gate.Enter();
  gate.Enter();
  std::atomic<bool> cut{false};
  std::thread cutter([&] { gate.Cut([&] { cut = true; }); });
  std::this_thread::sleep_for(kLong);
  EXPECT_FALSE(cut.load());
  gate.Leave();
  std::this_thread::sleep_for(kLong);
  EXPECT_FALSE(cut.load());
  gate.Leave();
  cutter.join();
  EXPECT_TRUE(cut.load());
}

TEST(BatchGateTest, BatchesWaitForACut) {
  BatchGate gate;
  std::atomic<bool> entered{false};
  std::thread batch;
  gate.Cut([&] {
    batch = std::thread([&] {
      gate.Enter();
      entered = true;
      gate.Leave();
    });
    std::this_thread::sleep_for(kLong);
    EXPECT_FALSE(entered.load());
  });
  batch.join();
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

#include "harness/system/process_stats.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace engine_race::harness {
namespace {

TEST(ProcessStatsTest, AThreadThatSleepsHasWaited) {
  const uint64_t before = ThreadWaitCount();
  ::usleep(1);
  const uint64_t after = ThreadWaitCount();
  EXPECT_GT(after, before);
  // Waits of another thread are its own.
  uint64_t of_other = after;
  std::thread([&of_other] { of_other = ThreadWaitCount(); }).join();
  EXPECT_LT(of_other, after);
}

}  // namespace
}  // namespace engine_race::harness

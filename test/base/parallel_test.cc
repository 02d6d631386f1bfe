#include "engine_race/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "test/index/refused_memory.h"

namespace engine_race {
namespace {

TEST(ParallelTest, TheWorkIsDoneByThoseThatMemoryIsLeftFor) {
  bool refused = true;
  for (uint64_t passed_count = 0; refused; ++passed_count) {
    std::atomic<uint32_t> started{0};
    const auto work = [&started](uint32_t) {
      ++started;
      return Status::Ok();
    };
    const std::function<Status(uint32_t)> function = work;
    const test::RefuseMemory refuse(passed_count);
    EXPECT_TRUE(RunParallel("er-test", 4, function).ok());
    refused = refuse.refused();
    EXPECT_GE(started, 1U);
    EXPECT_EQ(started == 4, !refused) << passed_count;
  }
}

TEST(ParallelTest, ARefusalThatAnyWorkerThrowsIsAStatus) {
  for (uint32_t thrower = 0; thrower < 2; ++thrower) {
    const Status status = RunParallel("er-test", 2, [thrower](uint32_t worker) -> Status {
      if (worker == thrower) throw std::system_error(EAGAIN, std::generic_category());
      return Status::Ok();
    });
    EXPECT_EQ(status.code(), Code::kOutOfMemory) << thrower;
  }
}

}  // namespace
}  // namespace engine_race

#include "harness/system/process_stats.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <thread>

namespace engine_race::harness {
namespace {

TEST(ProcessStatsTest, CpuTimesAddUp) {
  const CpuTimes before = ProcessCpuTimes();
  const double both = CpuSeconds();
  const CpuTimes after = ProcessCpuTimes();
  EXPECT_LE(before.user_seconds + before.system_seconds, both);
  EXPECT_GE(after.user_seconds + after.system_seconds, both);
}

TEST(ProcessStatsTest, ThePeakOfMemoryBeginsAnew) {
  // Not the heap: AddressSanitizer keeps what is freed there for a while.
  constexpr size_t kMuchBytes = size_t{64} << 20;
  void* const much = ::mmap(nullptr, kMuchBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(much, MAP_FAILED);
  EXPECT_GT(PeakRssBytes(), kMuchBytes);
  ASSERT_EQ(::munmap(much, kMuchBytes), 0);
  const uint64_t before = PeakRssBytes();
  if (!ResetPeakRss()) GTEST_SKIP() << "the kernel does not reset the peak";
  EXPECT_LT(PeakRssBytes(), before);
}

TEST(ProcessStatsTest, AnOpenFileCounts) {
  const uint64_t before = OpenFileCount();
  FILE* const file = std::fopen("/dev/null", "r");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(OpenFileCount(), before + 1);
  std::fclose(file);
  EXPECT_EQ(OpenFileCount(), before);
}

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

#include "harness/system/process_stats.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "test/test_util.h"

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

// Where the cgroup of memory lies, and that its cap holds.

constexpr char kV1Mounts[] =
    "24 1 0:21 / /proc rw - proc proc rw\n"
    "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 25 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr char kV2Mounts[] = "29 23 0:25 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";

TEST(MemoryCgroupTest, FindsVersionOneBesideVersionTwo) {
  const auto place = FindMemoryCgroup(kV1Mounts, "5:cpu:/a\n4:memory:/a/b\n0::/c\n");
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->is_v2);
  EXPECT_EQ(place->mount, "/sys/fs/cgroup/memory");
  EXPECT_EQ(place->own, "/a/b");
}

TEST(MemoryCgroupTest, FindsVersionTwo) {
  const auto place = FindMemoryCgroup(kV2Mounts, "0::/user.slice/session\n");
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->is_v2);
  EXPECT_EQ(place->mount, "/sys/fs/cgroup");
  EXPECT_EQ(place->own, "/user.slice/session");
  EXPECT_EQ(FindMemoryCgroup(kV2Mounts, "0::/\n")->own, "");
}

TEST(MemoryCgroupTest, AContainersMountBeginsAtItsOwnGroup) {
  const auto place =
      FindMemoryCgroup("31 25 0:27 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
                       "4:memory:/docker/x/y\n");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->own, "/y");
}

TEST(MemoryCgroupTest, AGroupWhoseNameOnlyBeginsLikeTheMountsLiesElsewhere) {
  constexpr char kMounts[] =
      "31 25 0:27 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  EXPECT_EQ(FindMemoryCgroup(kMounts, "4:memory:/docker/xy\n")->own, "/docker/xy");
  EXPECT_EQ(FindMemoryCgroup(kMounts, "4:memory:/docker/x\n")->own, "");
}

TEST(MemoryCgroupTest, TheParentHandsTheControllerDown) {
  const test::TempDir temp;
  const std::string inner = temp.Join("a/b");
  std::filesystem::create_directories(inner);
  const auto parent_of = [&](const char* own) {
    return ParentForMemoryCgroups({true, temp.path(), own});
  };
  EXPECT_EQ(parent_of("/a/b"), "");
  EXPECT_EQ(parent_of("a"), "");
  std::ofstream(temp.Join("cgroup.subtree_control")) << "cpu memory pids\n";
  EXPECT_EQ(parent_of("/a/b"), temp.path());
  EXPECT_EQ(parent_of("gone"), temp.path());
  std::ofstream(inner + "/cgroup.subtree_control") << "memory\n";
  EXPECT_EQ(parent_of("/a/b"), inner);
  EXPECT_EQ(ParentForMemoryCgroups({false, "/m", "/g"}), "/m/g");
}

TEST(MemoryCgroupTest, EachGroupHasANameOfItsOwn) {
  constexpr uint64_t kLimitBytes = uint64_t{64} << 20;
  MemoryCgroup first;
  const Status created = first.Create(kLimitBytes);
  if (!created.ok()) GTEST_SKIP() << created.message();
  MemoryCgroup second;
  ASSERT_TRUE(second.Create(kLimitBytes).ok());
  EXPECT_NE(first.path(), second.path());
  EXPECT_GT(first.version(), 0);
  EXPECT_TRUE(MemoryCgroup::TryOut(kLimitBytes).ok());
}

TEST(MemoryCgroupTest, NoneIsNoPlace) {
  EXPECT_FALSE(FindMemoryCgroup("24 1 0:21 / /proc rw - proc proc rw\n", "4:memory:/\n"));
  EXPECT_FALSE(FindMemoryCgroup("", ""));
}

TEST(MemoryCgroupTest, ACapIsThereForTheChildAndGoneAfterwards) {
  constexpr uint64_t kLimitBytes = uint64_t{64} << 20;
  std::string path;
  {
    MemoryCgroup group;
    const Status created = group.Create(kLimitBytes);
    if (!created.ok()) {
      EXPECT_EQ(created.code(), Code::kNotSupported);
      ASSERT_FALSE(created.message().empty());
      GTEST_SKIP() << created.message();
    }
    path = group.path();
    const pid_t child = ::fork();
    if (child == 0) {
      if (!MemoryCgroup::Join(path).ok()) ::_exit(1);
      constexpr size_t kTooMuch = 4 * kLimitBytes;
      void* const memory =
          ::mmap(nullptr, kTooMuch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) ::_exit(2);
      std::memset(memory, 1, kTooMuch);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "ended by itself with " << WEXITSTATUS(status);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace engine_race::harness

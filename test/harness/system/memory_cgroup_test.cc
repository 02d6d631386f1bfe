// Below which group a cap on memory is made, and that it holds.
#include "harness/system/memory_cgroup.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine_race/base/text_file.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr char kV1Mounts[] =
    "24 1 0:21 / /proc rw - proc proc rw\n"
    "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 25 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

// Finds the parent where the kernel shows these mounts and groups. Empty: there is none.
std::string ParentIn(const std::string& mounts, const std::string& groups, int version) {
  const auto read = [&](const std::string& path) {
    if (path == "/proc/self/mountinfo") return mounts;
    return path == "/proc/self/cgroup" ? groups : ReadTextFile(path);
  };
  MemoryCgroupParent parent;
  const Status found = FindMemoryCgroupParent(read, &parent);
  EXPECT_EQ(parent.version, found.ok() ? version : 0) << found.ToString();
  EXPECT_EQ(found.code(), found.ok() ? Code::kOk : Code::kNotSupported);
  return parent.path;
}

TEST(MemoryCgroupTest, FindsVersionOneBesideVersionTwo) {
  EXPECT_EQ(ParentIn(kV1Mounts, "5:cpu:/a\n4:memory:/a/b\n0::/c\n", 1),
            "/sys/fs/cgroup/memory/a/b");
}

TEST(MemoryCgroupTest, AContainersMountBeginsAtItsOwnGroup) {
  constexpr char kMounts[] =
      "31 25 0:27 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  EXPECT_EQ(ParentIn(kMounts, "4:memory:/docker/x/y\n", 1), "/sys/fs/cgroup/memory/y");
  EXPECT_EQ(ParentIn(kMounts, "4:memory:/docker/x\n", 1), "/sys/fs/cgroup/memory");
  // A group whose name only begins like the mount's lies elsewhere.
  EXPECT_EQ(ParentIn(kMounts, "4:memory:/docker/xy\n", 1), "/sys/fs/cgroup/memory");
}

TEST(MemoryCgroupTest, TheParentHandsTheControllerDown) {
  const test::TempDir temp;
  const std::string inner = temp.Join("a/b");
  std::filesystem::create_directories(inner);
  const auto parent_of = [&](const std::string& own) {
    return ParentIn("29 23 0:25 / " + temp.path() + " rw shared:4 - cgroup2 cgroup2 rw\n",
                    "0::" + own + "\n", 2);
  };
  EXPECT_EQ(parent_of("/a/b"), "");
  EXPECT_EQ(parent_of("/"), "");
  std::ofstream(temp.Join("cgroup.subtree_control")) << "cpu memory pids\n";
  EXPECT_EQ(parent_of("/a/b"), temp.path());
  EXPECT_EQ(parent_of("/"), temp.path());
  std::ofstream(inner + "/cgroup.subtree_control") << "memory\n";
  EXPECT_EQ(parent_of("/a/b"), inner);
}

TEST(MemoryCgroupTest, NoneIsNoParent) {
  EXPECT_EQ(ParentIn("24 1 0:21 / /proc rw - proc proc rw\n", "4:memory:/\n", 0), "");
  EXPECT_EQ(ParentIn("", "", 0), "");
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

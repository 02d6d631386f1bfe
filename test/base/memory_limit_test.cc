#include "engine_race/base/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>

namespace engine_race {
namespace {

using Files = std::map<std::string, std::string>;

uint64_t LimitOf(Files files, const std::string& group) {
  files["/proc/self/cgroup"] = group;
  files["/proc/self/mountinfo"] =
      "30 23 0:26 / /two rw,nosuid - cgroup2 cgroup2 rw\n"
      "35 32 0:31 / /one rw shared:9 - cgroup cgroup rw,memory\n";
  return MemoryLimitFrom([&](const std::string& path) {
    const auto at = files.find(path);
    return at == files.end() ? std::string() : at->second;
  });
}

TEST(MemoryLimitTest, TheLeastOnTheWayUpCounts) {
  const Files limits = {{"/two/a/b/memory.max", "max\n"},
                        {"/two/a/b/memory.high", "300000000\n"},
                        {"/two/a/memory.max", "200000000\n"},
                        {"/two/x/memory.max", "100000000\n"}};
  EXPECT_EQ(LimitOf(limits, "0::/a/b\n"), 200000000u);
  EXPECT_EQ(LimitOf(limits, "0::/x\n"), 100000000u);
  EXPECT_EQ(LimitOf(limits, "0::/\n"), kNoMemoryLimit);
  Files high = limits;
  high["/two/a/b/memory.high"] = "150000000\n";
  EXPECT_EQ(LimitOf(high, "0::/a/b\n"), 150000000u);
}

TEST(MemoryLimitTest, TheFirstVersionHasOneFile) {
  const Files limits = {{"/one/g/memory.limit_in_bytes", "134217728\n"},
                        {"/one/memory.limit_in_bytes", "9223372036854771712\n"}};
  EXPECT_EQ(LimitOf(limits, "9:memory:/g\n0::/\n"), 134217728u);
  EXPECT_EQ(LimitOf(limits, "9:memory:/\n0::/\n"), kNoMemoryLimit);
}

TEST(MemoryLimitTest, NonsenseIsNoLimit) {
  for (const char* text : {"", "\n", "max\n", "0\n", "-1\n", "x\n", "99999999999999999999999\n"}) {
    EXPECT_EQ(LimitOf({{"/two/a/memory.max", text}}, "0::/a\n"), kNoMemoryLimit) << text;
  }
  EXPECT_EQ(LimitOf({}, ""), kNoMemoryLimit);
}

TEST(MemoryLimitTest, TheMachineHasOne) {
  const auto pages = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_LE(MemoryLimit(), pages * page_bytes);
  EXPECT_GT(MemoryLimit(), 0u);
}

}  // namespace
}  // namespace engine_race

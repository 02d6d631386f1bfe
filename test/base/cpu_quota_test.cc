// CPU quotas of control groups: what files of every kind of hierarchy say, and a real group.
#include "engine_race/base/cpu_quota.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "engine_race/base/parallel.h"

namespace engine_race {
namespace {

using Files = std::map<std::string, std::string>;

constexpr char kV2Mount[] =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1Mount[] =
    "35 32 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

uint32_t QuotaOf(const Files& files) {
  return CpuQuotaFrom([&](const std::string& path) {
    const auto at = files.find(path);
    return at == files.end() ? std::string() : at->second;
  });
}

Files Unified(const std::string& group, Files limits) {
  limits["/proc/self/cgroup"] = "0::" + group + "\n";
  limits["/proc/self/mountinfo"] = kV2Mount;
  return limits;
}

TEST(CpuQuotaTest, NoFilesNoQuota) {
  EXPECT_EQ(QuotaOf({}), kNoCpuQuota);
  EXPECT_EQ(QuotaOf(Unified("/a", {})), kNoCpuQuota);
  EXPECT_EQ(
      QuotaOf({{"/proc/self/mountinfo", kV2Mount}, {"/sys/fs/cgroup/cpu.max", "100000 100000\n"}}),
      kNoCpuQuota);
}

TEST(CpuQuotaTest, PartsOfACpuCountAsOne) {
  const auto quota_of = [](const std::string& limit) {
    return QuotaOf(Unified("/a", {{"/sys/fs/cgroup/a/cpu.max", limit}}));
  };
  EXPECT_EQ(quota_of("100000 100000\n"), 1u);
  EXPECT_EQ(quota_of("100001 100000\n"), 2u);
  EXPECT_EQ(quota_of("1000 100000\n"), 1u);
  EXPECT_EQ(quota_of("800000 100000\n"), 8u);
  EXPECT_EQ(quota_of("50000 10000"), 5u);
  EXPECT_EQ(quota_of("max 100000\n"), kNoCpuQuota);
}

TEST(CpuQuotaTest, NonsenseIsNoQuota) {
  for (const char* limit :
       {"", "\n", " ", "100000", "100000 0\n", "0 100000\n", "-1 100000\n", "x y\n", "10 max\n",
        "99999999999999999999999 100000\n", "100000 99999999999999999999999\n"}) {
    EXPECT_EQ(QuotaOf(Unified("/a", {{"/sys/fs/cgroup/a/cpu.max", limit}})), kNoCpuQuota) << limit;
  }
  EXPECT_EQ(QuotaOf(Unified("/a", {{"/sys/fs/cgroup/a/cpu.max", "9999999999999999 1\n"}})),
            kNoCpuQuota);
}

TEST(CpuQuotaTest, TheLeastOnTheWayUpCounts) {
  const Files limits = {{"/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n"},
                        {"/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n"},
                        {"/sys/fs/cgroup/a/cpu.max", "200000 100000\n"},
                        {"/sys/fs/cgroup/a/x/cpu.max", "100000 100000\n"}};
  EXPECT_EQ(QuotaOf(Unified("/a/b/c", limits)), 2u);
  EXPECT_EQ(QuotaOf(Unified("/a/b/c/", limits)), 2u);
  EXPECT_EQ(QuotaOf(Unified("/a/x", limits)), 1u);
  EXPECT_EQ(QuotaOf(Unified("/", limits)), kNoCpuQuota);
}

TEST(CpuQuotaTest, InANamespaceTheMountPointIsTheGroup) {
  const Files limits = {{"/sys/fs/cgroup/cpu.max", "200000 100000\n"}};
  EXPECT_EQ(QuotaOf(Unified("/", limits)), 2u);
  // A process outside of its namespace's root sees a way up.
  EXPECT_EQ(QuotaOf(Unified("/../../other", limits)), 2u);
}

TEST(CpuQuotaTest, AContainerMayKnowItsWholePathAndSeeOnlyItsGroup) {
  Files files = Unified("/docker/abc/inner",
                        {{"/sys/fs/cgroup/cpu.max", "400000 100000\n"},
                         {"/sys/fs/cgroup/inner/cpu.max", "200000 100000\n"},
                         {"/sys/fs/cgroup/docker/abc/inner/cpu.max", "100000 100000\n"}});
  files["/proc/self/mountinfo"] = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(QuotaOf(files), 2u);
  files["/proc/self/cgroup"] = "0::/docker/abcdef\n";
  EXPECT_EQ(QuotaOf(files), 4u);
}

TEST(CpuQuotaTest, TheFirstVersionHasTwoFiles) {
  Files files = {
      {"/proc/self/cgroup", "11:memory:/m\n4:cpu,cpuacct:/a:b/c\n1:name=systemd:/\n"},
      {"/proc/self/mountinfo", std::string("33 32 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup "
                                           "rw,cpuset\n") +
                                   kV1Mount},
      {"/sys/fs/cgroup/cpu,cpuacct/a:b/c/cpu.cfs_quota_us", "150000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/a:b/c/cpu.cfs_period_us", "50000\n"}};
  EXPECT_EQ(QuotaOf(files), 3u);
  files["/sys/fs/cgroup/cpu,cpuacct/a:b/c/cpu.cfs_quota_us"] = "-1\n";
  EXPECT_EQ(QuotaOf(files), kNoCpuQuota);
  files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"] = "100000\n";
  files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"] = "100000\n";
  EXPECT_EQ(QuotaOf(files), 1u);
}

TEST(CpuQuotaTest, InAHybridHierarchyBothAreLookedAt) {
  Files files = {
      {"/proc/self/cgroup", "4:cpu,cpuacct:/one\n0::/two\n"},
      {"/proc/self/mountinfo",
       std::string("31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n") + kV1Mount},
      {"/sys/fs/cgroup/cpu,cpuacct/one/cpu.cfs_quota_us", "300000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/one/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(QuotaOf(files), 3u);
  files["/sys/fs/cgroup/unified/two/cpu.max"] = "200000 100000\n";
  EXPECT_EQ(QuotaOf(files), 2u);
}

TEST(CpuQuotaTest, MountPointsAndLinesMayBeOdd) {
  const Files files = {{"/proc/self/cgroup", "\n:::\nx\n0::/a\n"},
                       {"/proc/self/mountinfo",
                        "\n - \n1 2 - cgroup2\n- cgroup2 a b\n"
                        "30 23 0:26 / /a\\040b\\04 rw - cgroup2 cgroup2 rw"},
                       {"/a b\\04/a/cpu.max", "200000 100000\n"}};
  EXPECT_EQ(QuotaOf(files), 2u);
}

// A group below the root of the CPU controller's hierarchy, with a quota; gone with the object.
class QuotaGroup {
 public:
  QuotaGroup() {
    for (const char* root :
         {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"}) {
      const std::string path = root + std::string("/engine_race_test_") + std::to_string(getpid());
      std::error_code error;
      if (!std::filesystem::create_directory(path, error)) continue;
      unified_ = std::filesystem::exists(path + "/cpu.max", error);
      if (unified_ || std::filesystem::exists(path + "/cpu.cfs_quota_us", error)) {
        path_ = path;
        return;
      }
      std::filesystem::remove(path, error);
    }
  }
  QuotaGroup(const QuotaGroup&) = delete;
  QuotaGroup& operator=(const QuotaGroup&) = delete;
  ~QuotaGroup() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }

  bool Limit(uint32_t quota_us) const {
    if (path_.empty()) return false;
    return unified_ ? Put("cpu.max", std::to_string(quota_us) + " 100000")
                    : Put("cpu.cfs_period_us", "100000") &&
                          Put("cpu.cfs_quota_us", std::to_string(quota_us));
  }
  bool Enter() const { return Put("cgroup.procs", "0"); }

 private:
  bool Put(const std::string& file, const std::string& text) const {
    std::ofstream out(path_ + "/" + file);
    out << text << std::flush;
    return out.good();
  }

  std::string path_;
  bool unified_ = false;
};

// What a child in a group with that quota counts: the quota, and then the CPUs. -1 where it cannot
// enter the group.
int CountedUnder(const QuotaGroup& group, uint32_t quota_us, uint32_t (*count)()) {
  if (!group.Limit(quota_us)) return -1;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(group.Enter() ? static_cast<int>(std::min(count(), 200u)) : 255);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

TEST(CpuQuotaTest, ARealGroupIsCounted) {
  const QuotaGroup group;
  const int quota = CountedUnder(group, 250000, [] { return CpuQuota(); });
  if (quota < 0) GTEST_SKIP() << "no control group with a CPU quota can be made here";
  EXPECT_LE(quota, 3);
  EXPECT_GE(quota, 1);
  EXPECT_EQ(CountedUnder(group, 50000, AvailableCpuCount), 1);
  EXPECT_GE(AvailableCpuCount(), 1u);
  EXPECT_LE(AvailableCpuCount(), std::max<size_t>(AvailableCpus().size(), 1));
}

}  // namespace
}  // namespace engine_race

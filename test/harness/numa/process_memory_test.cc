#include "harness/numa/process_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/numa/report.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using numa::Node;
using numa::Topology;

// Nodes 0, 2 and 5 with CPUs 0-1, 2-3 and none; node 5 is memory alone, and farther away.
Topology ThreeNodes() {
  Topology topology;
  topology.from_kernel = true;
  topology.nodes = {Node{0, {0, 1}, 1 << 20, {10, 20, 30}}, Node{2, {2, 3}, 0, {20, 10, 40}},
                    Node{5, {}, 1 << 20, {30, 40, 10}}};
  return topology;
}

ProcessMemory Sorted(const std::string& numa_text, const std::string& maps_text) {
  std::vector<NumaMapping> numa_mappings;
  std::vector<Mapping> mappings;
  EXPECT_TRUE(ParseNumaMaps(numa_text, &numa_mappings).ok());
  EXPECT_TRUE(ParseMaps(maps_text, &mappings).ok());
  ProcessMemory memory;
  SortByKind(numa_mappings, mappings, &memory);
  return memory;
}

constexpr char kProcessNumaMaps[] =
    "00401000 bind:2 file=/bin/race mapped=5 N0=4 N2=1 kernelpagesize_kB=4\n"
    "00500000 bind:2 file=/bin/race mapped=2 N0=2 kernelpagesize_kB=4\n"
    "00600000 bind:2 file=/bin/race anon=3 dirty=3 N2=3 kernelpagesize_kB=4\n"
    "00700000 bind:2 heap anon=10 dirty=10 N2=9 N5=1 kernelpagesize_kB=4\n"
    "7f0000001000 bind:2 anon=4 dirty=4 N2=4 kernelpagesize_kB=4\n"
    "7f0000100000 bind:2 file=/lib/libc.so.6 mapped=6 N0=6 kernelpagesize_kB=4\n"
    "7f0000200000 bind:2 file=/store/staging anon=0 dirty=7 N5=7 kernelpagesize_kB=4\n"
    "7f0000300000 bind:2 file=/dev/shm/x\\040(deleted) anon=8 dirty=8 N0=8 kernelpagesize_kB=4\n"
    "7f0000400000 bind:2 anon=1024 dirty=1024 N2=1024 kernelpagesize_kB=4\n"
    "7ffc00000000 bind:2 stack anon=4 dirty=4 N2=4 kernelpagesize_kB=4\n";
constexpr char kProcessMaps[] =
    "00401000-00410000 r-xp 00001000 08:01 10    /bin/race\n"
    "00500000-00510000 r--p 00001000 08:01 10    /bin/race\n"
    "00600000-00603000 rw-p 00001000 08:01 10    /bin/race\n"
    "00700000-00800000 rw-p 00000000 00:00 0     [heap]\n"
    "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n"
    "7f0000001000-7f0000081000 rw-p 00000000 00:00 0 \n"
    "7f0000100000-7f0000180000 r-xp 00000000 08:01 11    /lib/libc.so.6\n"
    "7f0000200000-7f0000280000 rw-s 00000000 08:01 12    /store/staging\n"
    "7f0000300000-7f0000380000 rw-s 00000000 00:01 13    /dev/shm/x (deleted)\n"
    "7f0000400000-7f0000800000 r-xp 00000000 00:00 0 \n"
    "AnonHugePages:      2048 kB\n"
    "7ffc00000000-7ffc00080000 rw-p 00000000 00:00 0     [stack]\n";

TEST(ProcessMemoryTest, SortsMemoryByKind) {
  const ProcessMemory memory = Sorted(kProcessNumaMaps, kProcessMaps);
  // The program's text, a library's, and text that was moved to anonymous memory.
  EXPECT_EQ(memory.Of(MemoryKind::kCode).bytes, (NodeBytes{{0, 10 * 4096}, {2, 1025 * 4096}}));
  EXPECT_EQ(memory.huge_code_bytes, 2u << 20);
  EXPECT_EQ(memory.Of(MemoryKind::kHeap).bytes, (NodeBytes{{2, 9 * 4096}, {5, 4096}}));
  // Data of the program that was written to.
  EXPECT_EQ(memory.Of(MemoryKind::kAnonymous).bytes, (NodeBytes{{2, 3 * 4096}}));
  // Constants of the program, and two shared files, one of them deleted.
  EXPECT_EQ(memory.Of(MemoryKind::kFiles).bytes, (NodeBytes{{0, 10 * 4096}, {5, 7 * 4096}}));
  // That of the process, and one of a thread above its guard page.
  EXPECT_EQ(memory.Of(MemoryKind::kStacks).bytes, (NodeBytes{{2, 8 * 4096}}));
  EXPECT_EQ(SumOf(memory.All().bytes), (10u + 1025 + 13 + 17 + 8) * 4096);
}

TEST(ProcessMemoryTest, SortsWhatOnlyNumaMapsHasByItsOwnWords) {
  const ProcessMemory memory = Sorted(
      "00600000 default anon=3 N1=3 kernelpagesize_kB=4\n"
      "00700000 default file=/gone mapped=3 N1=3 kernelpagesize_kB=4\n"
      "00800000 default stack anon=3 N1=3 kernelpagesize_kB=4\n"
      "00900000 default heap anon=5 N1=5 kernelpagesize_kB=4\n",
      "");
  EXPECT_EQ(SumOf(memory.Of(MemoryKind::kHeap).bytes), 5u * 4096);
  EXPECT_EQ(SumOf(memory.Of(MemoryKind::kAnonymous).bytes), 3u * 4096);
  EXPECT_EQ(SumOf(memory.Of(MemoryKind::kFiles).bytes), 3u * 4096);
  EXPECT_EQ(SumOf(memory.Of(MemoryKind::kStacks).bytes), 3u * 4096);
  EXPECT_EQ(SumOf(memory.Of(MemoryKind::kCode).bytes), 0u);
}

TEST(ProcessMemoryTest, SortsMemoryOfNoFileByPolicyAndFilesByPath) {
  const ProcessMemory memory = Sorted(
      "00500000 default file=/bin/race mapped=2 N0=2 kernelpagesize_kB=4\n"
      "00600000 default file=/bin/race mapped=1 N2=1 kernelpagesize_kB=4\n"
      "00700000 default heap anon=5 N0=5 kernelpagesize_kB=4\n"
      "00800000 bind:2 anon=3 N2=3 kernelpagesize_kB=4\n"
      "00900000 bind:2 anon=4 N0=1 N2=3 kernelpagesize_kB=4\n"
      "00a00000 bind:2 file=/store/staging mapped=7 N5=7 kernelpagesize_kB=4\n"
      "00b00000 default stack anon=1 N0=1 kernelpagesize_kB=4\n",
      "");
  EXPECT_EQ(memory.bytes_by_policy,
            (std::map<std::string, NodeBytes>{{"default", {{0, 6 * 4096}}},
                                              {"bind:2", {{0, 4096}, {2, 6 * 4096}}}}));
  EXPECT_EQ(memory.bytes_by_file,
            (std::map<std::string, NodeBytes>{{"/bin/race", {{0, 2 * 4096}, {2, 4096}}},
                                              {"/store/staging", {{5, 7 * 4096}}}}));
}

// An arena of malloc also touches memory that may not be read, which is larger than a guard page.
TEST(ProcessMemoryTest, TakesOnlyAGuardPageForTheEndOfAStack) {
  const ProcessMemory memory = Sorted("7f0000004000 default anon=3 N1=3 kernelpagesize_kB=4\n",
                                      "7f0000000000-7f0000004000 ---p 00000000 00:00 0 \n"
                                      "7f0000004000-7f0000008000 rw-p 00000000 00:00 0 \n");
  EXPECT_EQ(SumOf(memory.Of(MemoryKind::kStacks).bytes), 0u);
  EXPECT_EQ(SumOf(memory.Of(MemoryKind::kAnonymous).bytes), 3u * 4096);
}

TEST(ProcessMemoryTest, SharesAndDistancesFollowTheNodes) {
  const Topology topology = ThreeNodes();
  const NodeBytes bytes = {{0, 300}, {5, 100}};
  EXPECT_EQ(ShareOn(bytes, {0}), 0.75);
  EXPECT_EQ(ShareOn(bytes, {0, 5}), 1.0);
  EXPECT_EQ(ShareOn(bytes, {2}), 0.0);
  EXPECT_FALSE(ShareOn({}, {2}).has_value());
  EXPECT_DOUBLE_EQ(WeightedDistance(bytes, {0, 1}, topology), 0.75 * 10 + 0.25 * 30);
  EXPECT_DOUBLE_EQ(WeightedDistance(bytes, {3}, topology), 0.75 * 20 + 0.25 * 40);
  // Each CPU weighs the same, and only those that were named count.
  EXPECT_DOUBLE_EQ(WeightedDistance(bytes, {0, 1, 2, 3}, topology), (15 + 25) / 2.0);
  EXPECT_DOUBLE_EQ(WeightedDistance(bytes, {0, 1, 2}, topology), (15 + 15 + 25) / 3.0);
  EXPECT_DOUBLE_EQ(WeightedDistance(bytes, {0, 99}, topology), 15);
  EXPECT_DOUBLE_EQ(WeightedDistance({}, {0}, topology), 0);
  EXPECT_DOUBLE_EQ(WeightedDistance(bytes, {}, topology), 0);
}

TEST(ProcessMemoryTest, NodesOfCpusLeavesUnknownCpusOut) {
  EXPECT_EQ(NodesOfCpus({3, 1, 99}, ThreeNodes()), (std::vector<uint32_t>{0, 2}));
  EXPECT_TRUE(NodesOfCpus({}, ThreeNodes()).empty());
}

// /proc of a process that was written down.
class ProcDirTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = temp_.Join("7/" + name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Status Read(const std::vector<uint32_t>& nodes = {}) {
    return ReadProcessMemory(temp_.path(), 7, ThreeNodes(), nodes, &memory_);
  }

  const test::TempDir temp_;
  ProcessMemory memory_;
};

TEST_F(ProcDirTest, LocalNodesAreThoseOfTheCpus) {
  Write("status", "Name:\trace\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t0-5\n");
  Write("numa_maps", kProcessNumaMaps);
  Write("maps", kProcessMaps);
  ASSERT_TRUE(Read().ok());
  EXPECT_EQ(memory_.name, "race");
  EXPECT_TRUE(memory_.is_bound);
  EXPECT_EQ(memory_.cpu_nodes, (std::vector<uint32_t>{2}));
  // Node 2 has no memory, and node 0 is nearer to it than node 5.
  EXPECT_EQ(memory_.local_nodes, (std::vector<uint32_t>{0}));
  Write("status", "Name:\trace\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t5\n");
  ASSERT_TRUE(Read().ok());
  EXPECT_EQ(memory_.local_nodes, (std::vector<uint32_t>{5}));
  Write("status", "Name:\trace\nCpus_allowed_list:\t1\n");
  ASSERT_TRUE(Read().ok());
  EXPECT_EQ(memory_.local_nodes, (std::vector<uint32_t>{0}));
  EXPECT_TRUE(memory_.is_bound);
  ASSERT_TRUE(Read({0, 5}).ok());
  EXPECT_EQ(memory_.local_nodes, (std::vector<uint32_t>{0, 5}));
}

TEST_F(ProcDirTest, AProcessOnAllCpusIsNotBound) {
  Write("status", "Name:\trace\nCpus_allowed_list:\t0-63\n");
  Write("numa_maps", "00600000 default anon=3 N0=3 kernelpagesize_kB=4\n");
  Write("maps", "");
  ASSERT_TRUE(Read().ok());
  EXPECT_FALSE(memory_.is_bound);
  EXPECT_EQ(memory_.cpu_nodes, (std::vector<uint32_t>{0, 2}));
  // Those that the machine has.
  EXPECT_EQ(memory_.cpus, (std::vector<uint32_t>{0, 1, 2, 3}));
  // A kernel without lists allows all.
  Write("status", "Name:\trace\n");
  ASSERT_TRUE(Read().ok());
  EXPECT_FALSE(memory_.is_bound);
  EXPECT_EQ(memory_.cpus, (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST_F(ProcDirTest, CountsThreadsByTheirCpus) {
  Write("status", "Name:\trace\nCpus_allowed_list:\t0-3\n");
  Write("numa_maps", "00600000 default anon=3 N0=3 kernelpagesize_kB=4\n");
  Write("maps", "");
  ASSERT_TRUE(Read().ok());
  EXPECT_TRUE(memory_.threads_by_cpus.empty());
  Write("task/7/status", "Name:\trace\nCpus_allowed_list:\t0-3\n");
  Write("task/8/status", "Name:\trace\nCpus_allowed_list:\t2-3\n");
  Write("task/9/status", "Name:\trace\nCpus_allowed_list:\t2-3\n");
  // One that has just ended.
  Write("task/10/stat", "");
  ASSERT_TRUE(Read().ok());
  EXPECT_EQ(memory_.threads_by_cpus, (std::map<std::string, uint32_t>{{"0-3", 1}, {"2-3", 2}}));
}

TEST_F(ProcDirTest, SaysWhatIsMissingOrUnknown) {
  EXPECT_EQ(Read().code(), Code::kNotFound);
  Write("status", "Name:\trace\nCpus_allowed_list:\t2-3\n");
  EXPECT_EQ(Read().code(), Code::kNotSupported);
  Write("numa_maps", "00600000 default anon=3 N0=3\nnonsense\n");
  Write("maps", "");
  EXPECT_EQ(Read().code(), Code::kIOError);
  EXPECT_NE(Read().message().find("numa_maps: line 2"), std::string::npos) << Read().message();
  Write("status", "Name:\trace\nCpus_allowed_list:\tmany\n");
  EXPECT_NE(Read().message().find("7/status"), std::string::npos) << Read().message();
}

// Whatever this machine is, the test's own text and memory are somewhere.
TEST(OwnMemoryTest, FindsCodeAndMemoryOfThisProcess) {
  if (::access("/proc/self/numa_maps", R_OK) != 0) GTEST_SKIP() << "a kernel without NUMA";
  Topology topology;
  ASSERT_TRUE(numa::ReadTopology("/sys", &topology).ok());
  const std::vector<char> touched(8 << 20, 'x');
  ProcessMemory memory;
  ASSERT_TRUE(ReadProcessMemory("/proc", ::getpid(), topology, {}, &memory).ok());
  EXPECT_GT(SumOf(memory.Of(MemoryKind::kCode).bytes), 64u << 10);
  EXPECT_GE(SumOf(memory.Of(MemoryKind::kAnonymous).bytes), touched.size());
  EXPECT_GT(SumOf(memory.Of(MemoryKind::kStacks).bytes), 0u);
  EXPECT_FALSE(memory.name.empty());
  const std::vector<uint32_t> first = {topology.nodes.front().id};
  ProcessMemory of_first;
  ASSERT_TRUE(ReadProcessMemory("/proc", ::getpid(), topology, first, &of_first).ok());
  EXPECT_EQ(of_first.local_nodes, first);
  EXPECT_EQ(of_first.is_bound, memory.is_bound) << "naming nodes binds nothing";
}

// The shares and distances of the memory as it is now.
ProcessMemory Measured(ProcessMemory memory) {
  MeasureKinds(ThreeNodes(), &memory);
  return memory;
}

TEST(ReportTest, JsonCarriesEverythingThatIsCompared) {
  const Topology topology = ThreeNodes();
  ProcessMemory memory = Sorted(kProcessNumaMaps, kProcessMaps);
  memory.pid = 41;
  memory.name = "race";
  memory.local_nodes = {2};
  memory.is_bound = true;
  const ProcessMemory summary = Measured(memory);
  EXPECT_EQ(summary.Of(MemoryKind::kStacks).local_share, 1.0);
  EXPECT_EQ(summary.Of(MemoryKind::kCode).local_share, 1025.0 / 1035);
  const auto parsed = ParsePlacementJson(PlacementJson({summary}, topology).dump());
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->size(), 1u);
  EXPECT_EQ(PlacementText(*parsed), PlacementText({summary}));
  EXPECT_EQ(parsed->front().huge_code_bytes, summary.huge_code_bytes);
  EXPECT_FALSE(ParsePlacementJson("{}").has_value());
  EXPECT_FALSE(ParsePlacementJson("no json").has_value());
}

TEST(ReportTest, JsonHasPoliciesFilesAndThreads) {
  const Topology topology = ThreeNodes();
  ProcessMemory memory = Sorted(kProcessNumaMaps, kProcessMaps);
  memory.threads_by_cpus = {{"0-3", 1}, {"2-3", 2}};
  const nlohmann::json json = PlacementJson({Measured(memory)}, topology);
  const nlohmann::json& process = json.at("processes").at(0);
  // The heap, written data and two stacks.
  EXPECT_EQ(process.at("policies"),
            nlohmann::json({{"bind:2", {{"bytes_by_node", {{"2", 20 * 4096}, {"5", 4096}}}}}}));
  EXPECT_EQ(process.at("mapped_files").at("/store/staging").at("bytes_by_node"),
            nlohmann::json({{"5", 7 * 4096}}));
  EXPECT_EQ(process.at("threads_by_cpus"), nlohmann::json({{"0-3", 1}, {"2-3", 2}}));
}

TEST(ReportTest, TextShowsNodesThatHoldSomethingAndEachKind) {
  const Topology topology = ThreeNodes();
  ProcessMemory memory = Sorted(kProcessNumaMaps, kProcessMaps);
  memory.local_nodes = {2};
  memory.is_bound = true;
  const std::string text = PlacementText({Measured(memory)});
  for (const char* word : {"node 0", "node 2", "node 5", "code", "heap", "anonymous", "files",
                           "stacks", "local nodes 2", "2.00 MiB of code on huge pages"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  }
  EXPECT_EQ(text.find("node 1"), std::string::npos);
  const std::string machine = TopologyText(topology);
  EXPECT_NE(machine.find("40"), std::string::npos) << machine;
}

TEST(ReportTest, ComparesReportsOfDifferentLengths) {
  ProcessMemory memory = Sorted(kProcessNumaMaps, kProcessMaps);
  memory.pid = 41;
  memory.local_nodes = {0};
  const ProcessMemory before = Measured(memory);
  memory.pid = 42;
  memory.local_nodes = {2};
  const ProcessMemory after = Measured(memory);
  const std::string text = CompareText({before}, {after, after});
  EXPECT_NE(text.find("41, 42 code"), std::string::npos) << text;
  EXPECT_NE(text.find("-, 42 code"), std::string::npos) << text;
  EXPECT_NE(text.find("99.03"), std::string::npos) << text;
  EXPECT_NE(text.find("0.97"), std::string::npos) << text;
}

}  // namespace
}  // namespace engine_race::harness

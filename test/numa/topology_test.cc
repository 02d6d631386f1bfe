// Topologies of made-up machines: gaps between numbers, nodes without CPUs or memory, no NUMA at
// all, files that make no sense; devices on RAID, partitions and multipath.
#include "engine_race/numa/topology.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/parallel.h"
#include "engine_race/numa/binding.h"
#include "test/numa/made_up_machine.h"

namespace engine_race::numa {
namespace {

using test::MadeUpMachine;
using Ids = std::vector<uint32_t>;

// Nodes 0, 1, 4 and 6: 1 has no CPUs, 4 no memory; 0 and 4 are near each other.
void DescribeSparse(const MadeUpMachine& machine) {
  machine.SetOnline("0-1,4,6");
  machine.AddNode(0, "0-1,8", 1000, "10 31 12 21");
  machine.AddNode(1, "", 2000, "31 10 31 17");
  machine.AddNode(4, "2-3", 0, "12 31 10 21");
  machine.AddNode(6, "4-7", 4000, "21 17 21 10");
}

Topology Read(const MadeUpMachine& machine) {
  Topology topology;
  const Status status = ReadTopology(machine.root(), &topology);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return topology;
}

TEST(NumaListTest, ReadsWhatTheKernelWrites) {
  Ids numbers;
  EXPECT_TRUE(ParseList("0-3,8,10-11\n", 1024, &numbers));
  EXPECT_EQ(numbers, (Ids{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_TRUE(ParseList(" 5 ", 6, &numbers));
  EXPECT_EQ(numbers, Ids{5});
  EXPECT_TRUE(ParseList("3,1-2,2", 1024, &numbers));
  EXPECT_EQ(numbers, (Ids{1, 2, 3}));
  for (const char* empty : {"", "\n", "  "}) {
    EXPECT_TRUE(ParseList(empty, 1024, &numbers));
    EXPECT_TRUE(numbers.empty());
  }
}

TEST(NumaListTest, RefusesEverythingElse) {
  Ids numbers;
  for (const char* bad : {"a", "1,", ",1", "1-", "-1", "3-1", "1 2", "0x1", "1024", "0-1024",
                          "18446744073709551616", "1-2-3", "1,,2", "+1"}) {
    EXPECT_FALSE(ParseList(bad, 1024, &numbers)) << bad;
  }
}

TEST(NumaListTest, FormatsRuns) {
  EXPECT_EQ(FormatList({}), "");
  EXPECT_EQ(FormatList({7}), "7");
  EXPECT_EQ(FormatList({0, 1, 2, 4, 6, 7}), "0-2,4,6-7");
}

TEST(NumaTopologyTest, NumbersMayHaveGaps) {
  const MadeUpMachine machine;
  DescribeSparse(machine);
  const Topology topology = Read(machine);
  EXPECT_TRUE(topology.from_kernel);
  ASSERT_EQ(topology.nodes.size(), 4u);
  EXPECT_EQ(topology.nodes[0].cpus, (Ids{0, 1, 8}));
  EXPECT_TRUE(topology.nodes[1].cpus.empty());
  EXPECT_EQ(topology.nodes[1].memory_bytes, 2000u << 10);
  EXPECT_FALSE(topology.nodes[2].HasMemory());
  EXPECT_EQ(topology.Find(6)->cpus, (Ids{4, 5, 6, 7}));
  for (const uint32_t absent : {2, 3, 5, 7, 1000}) EXPECT_EQ(topology.Find(absent), nullptr);
  EXPECT_EQ(topology.Distance(0, 4), 12u);
  EXPECT_EQ(topology.Distance(6, 1), 17u);
  EXPECT_EQ(topology.Distance(6, 5), kRemoteDistance);
  EXPECT_EQ(topology.NodeOfCpu(8), 0u);
  EXPECT_EQ(topology.NodeOfCpu(3), 4u);
  EXPECT_EQ(topology.NodeOfCpu(9), std::nullopt);
}

TEST(NumaTopologyTest, AKernelWithoutNodesIsOneNode) {
  const MadeUpMachine machine;
  machine.Write("devices/system/cpu/online", "0-2,5\n");
  const Topology topology = Read(machine);
  EXPECT_FALSE(topology.from_kernel);
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.nodes[0].id, 0u);
  EXPECT_EQ(topology.nodes[0].cpus, (Ids{0, 1, 2, 5}));
  EXPECT_TRUE(topology.nodes[0].HasMemory());
  EXPECT_EQ(topology.Distance(0, 0), kLocalDistance);
}

TEST(NumaTopologyTest, WithoutSysfsTheNodeHasTheCpusOfThisProcess) {
  Topology topology;
  ASSERT_TRUE(ReadTopology("/there/is/no/such/directory", &topology).ok());
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.nodes[0].cpus, AvailableCpus());
}

TEST(NumaTopologyTest, AbsentDistancesAreAssumed) {
  const MadeUpMachine machine;
  machine.SetOnline("0,2");
  machine.AddNode(0, "0", 1, "");
  machine.AddNode(2, "1", 1, "");
  const Topology topology = Read(machine);
  EXPECT_EQ(topology.Distance(2, 2), kLocalDistance);
  EXPECT_EQ(topology.Distance(2, 0), kRemoteDistance);
}

TEST(NumaTopologyTest, FilesThatMakeNoSenseAreNamed) {
  struct Case {
    const char* file;
    const char* text;
  };
  for (const Case& bad :
       {Case{"online", "0-"}, Case{"online", "0-4096"}, Case{"node0/cpulist", "x"},
        Case{"node0/meminfo", "Node 0 MemTotal: many kB"},
        Case{"node0/meminfo", "Node 0 MemFree: 1 kB"}, Case{"node0/distance", "10 20"},
        Case{"node0/distance", "near"}}) {
    const MadeUpMachine machine;
    machine.SetOnline("0");
    machine.AddNode(0, "0", 1, "10");
    machine.Write(std::string("devices/system/node/") + bad.file, bad.text);
    Topology topology;
    const Status status = ReadTopology(machine.root(), &topology);
    EXPECT_EQ(status.code(), Code::kIOError) << bad.file << ": " << bad.text;
    EXPECT_NE(status.message().find(bad.file), std::string::npos) << status.message();
  }
}

TEST(NumaTopologyTest, FilesThatCannotBeReadAreNotAbsent) {
  for (const char* file : {"online", "node0/cpulist", "node0/meminfo", "node0/distance"}) {
    const MadeUpMachine machine;
    machine.SetOnline("0");
    machine.AddNode(0, "0", 1, "10");
    // Nobody can read a directory as a file, not even root.
    const std::string path = std::string("devices/system/node/") + file;
    std::filesystem::remove(machine.root() + "/" + path);
    machine.Write(path + "/entry", "");
    Topology topology;
    const Status status = ReadTopology(machine.root(), &topology);
    EXPECT_EQ(status.code(), Code::kIOError) << file;
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  }
}

TEST(NumaTopologyTest, ThisMachineHasTheCpusOfThisProcess) {
  Topology topology;
  const Status status = ReadTopology(kSysfsRoot, &topology);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (const uint32_t cpu : AvailableCpus()) EXPECT_TRUE(topology.NodeOfCpu(cpu)) << cpu;
}

TEST(NumaAllowedTest, SaysWhatTheProcessMayUse) {
  const MadeUpMachine machine;
  DescribeSparse(machine);
  machine.SetStatus(
      "Name:\tx\nCpus_allowed:\t1f\nCpus_allowed_list:\t0-1,4\n"
      "Mems_allowed:\t00000000,00000041\nMems_allowed_list:\t0,6\nvoluntary: 1\n");
  Allowed allowed;
  ASSERT_TRUE(ReadAllowed(machine.root() + "/thread-self", Read(machine), &allowed).ok());
  EXPECT_EQ(allowed.cpus, (Ids{0, 1, 4}));
  EXPECT_EQ(allowed.nodes, (Ids{0, 6}));
}

TEST(NumaAllowedTest, WithoutWordsEverythingIsAllowed) {
  const MadeUpMachine machine;
  DescribeSparse(machine);
  Allowed allowed;
  ASSERT_TRUE(ReadAllowed(machine.root() + "/thread-self", Read(machine), &allowed).ok());
  EXPECT_EQ(allowed.cpus, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(allowed.nodes, (Ids{0, 1, 4, 6}));
  machine.SetStatus("Mems_allowed_list:\tall\n");
  EXPECT_EQ(ReadAllowed(machine.root() + "/thread-self", Read(machine), &allowed).code(),
            Code::kIOError);
}

TEST(NumaAllowedTest, AThreadHasCpusOfItsOwn) {
  const Ids all = AvailableCpus();
  if (all.size() < 2) GTEST_SKIP() << "there is one CPU here";
  Topology topology;
  ASSERT_TRUE(ReadTopology(kSysfsRoot, &topology).ok());
  Allowed allowed;
  std::thread([&] {
    ASSERT_TRUE(RunOn(Ids{all.back()}).ok());
    ASSERT_TRUE(ReadAllowed(std::string(kProcRoot) + "/thread-self", topology, &allowed).ok());
  }).join();
  EXPECT_EQ(allowed.cpus, Ids{all.back()}) << "those of the process's first thread";
}

TEST(NumaDeviceTest, APartitionLiesWhereItsControllerDoes) {
  const MadeUpMachine machine;
  const std::string pci = "devices/pci0000:40/0000:40:01.0";
  machine.Write(pci + "/numa_node", "4\n");
  machine.Link("dev/block/259:1", pci + "/nvme/nvme0/nvme0n1/nvme0n1p1");
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(259, 1)), 4u);
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(259, 2)), std::nullopt);
  EXPECT_EQ(NodeOfDevice(machine.root() + "/absent", makedev(259, 1)), std::nullopt);
}

TEST(NumaDeviceTest, NoNodeIsMinusOne) {
  const MadeUpMachine machine;
  machine.Write("devices/virtio0/numa_node", "-1\n");
  machine.Link("dev/block/254:0", "devices/virtio0/block/vda");
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(254, 0)), std::nullopt);
  // A device further up may know it.
  machine.Write("devices/numa_node", "1\n");
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(254, 0)), 1u);
}

TEST(NumaDeviceTest, RaidLiesWhereAllItsDisksDo) {
  const MadeUpMachine machine;
  for (const char* disk : {"sda", "sdb", "sdc"}) {
    machine.Write(std::string("devices/host/") + disk + "/numa_node",
                  std::string(disk) == "sdc" ? "2\n" : "1\n");
  }
  machine.Link("dev/block/9:0", "devices/virtual/block/md0/md0p1");
  machine.Link("devices/virtual/block/md0/slaves/sda", "devices/host/sda");
  machine.Link("devices/virtual/block/md0/slaves/sdb", "devices/host/sdb");
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(9, 0)), 1u);
  machine.Link("devices/virtual/block/md0/slaves/sdc", "devices/host/sdc");
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(9, 0)), std::nullopt);
}

TEST(NumaDeviceTest, DevicesThatLeadToThemselvesEnd) {
  const MadeUpMachine machine;
  machine.Link("dev/block/253:0", "devices/virtual/block/dm-0");
  machine.Link("devices/virtual/block/dm-0/slaves/dm-0", "devices/virtual/block/dm-0");
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(253, 0)), std::nullopt);
}

TEST(NumaDeviceTest, MultipathLiesWhereAllItsControllersDo) {
  const MadeUpMachine machine;
  const std::string subsystem = "devices/virtual/nvme-subsystem/nvme-subsys0";
  machine.Write("devices/pci0/0000:01:00.0/numa_node", "3\n");
  machine.Write("devices/pci1/0000:81:00.0/numa_node", "3\n");
  machine.Link("dev/block/259:0", subsystem + "/nvme0n1");
  machine.Link(subsystem + "/nvme0", "devices/pci0/0000:01:00.0/nvme/nvme0");
  machine.Link(subsystem + "/nvme1", "devices/pci1/0000:81:00.0/nvme/nvme1");
  EXPECT_EQ(NodeOfDevice(machine.root(), makedev(259, 0)), 3u);
}

}  // namespace
}  // namespace engine_race::numa

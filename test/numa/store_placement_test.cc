// What Options::numa comes to on made-up machines.
#include "engine_race/numa/store_placement.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <string>
#include <thread>

#include "engine_race/base/parallel.h"
#include "engine_race/numa/binding.h"
#include "test/e2e/engine_fixture.h"
#include "test/numa/made_up_machine.h"

namespace engine_race::numa {
namespace {

using test::LogLines;
using test::MadeUpMachine;
using Ids = std::vector<uint32_t>;

class StorePlacementTest : public testing::Test {
 protected:
  // Node 0 has CPUs 0 and 1, node 1 CPU 2, node 2 memory alone, node 5 CPU 3 alone.
  StorePlacementTest() {
    machine_.SetOnline("0-2,5");
    machine_.AddNode(0, "0-1", 1000, "10 20 20 20");
    machine_.AddNode(1, "2", 1000, "20 10 20 20");
    machine_.AddNode(2, "", 1000, "20 20 10 20");
    machine_.AddNode(5, "3", 0, "20 20 20 10");
    AddDevice(1, 1);
    AddDevice(2, 2);
    AddDevice(5, 5);
    Allow("0-3", "0-2,5");
  }

  // Device 259:`number` hangs on a node.
  void AddDevice(uint32_t number, uint32_t node) {
    const std::string path = "devices/pci/disk" + std::to_string(number);
    machine_.Link("dev/block/259:" + std::to_string(number), path);
    machine_.Write(path + "/numa_node", std::to_string(node) + "\n");
  }
  void Allow(const std::string& cpus, const std::string& nodes) {
    machine_.SetStatus("Cpus_allowed_list:\t" + cpus + "\nMems_allowed_list:\t" + nodes + "\n");
  }

  Status Plan(NumaMode mode, const Ids& nodes, const std::vector<dev_t>& devices = {}) {
    log_.Clear();
    Options options;
    options.numa = {mode, nodes};
    options.memory_budget_bytes = budget_bytes_;
    options.log = log_.Callback();
    const Status planned =
        StorePlacement::Plan(options, {machine_.root(), machine_.root()}, &placement_);
    if (planned.ok()) placement_.PlaceThreads(devices, options.log);
    return planned;
  }
  std::string lines() const { return testing::PrintToString(log_.lines()); }

  uint64_t budget_bytes_ = 1000 << 10;
  MadeUpMachine machine_;
  StorePlacement placement_;
  LogLines log_;
};

TEST_F(StorePlacementTest, NoneLeavesAllAlone) {
  ASSERT_TRUE(Plan(NumaMode::kNone, {}, {makedev(259, 1)}).ok());
  EXPECT_TRUE(placement_.memory().anywhere());
  EXPECT_TRUE(placement_.device_thread_cpus().empty());
  EXPECT_TRUE(log_.lines().empty()) << lines();
}

TEST_F(StorePlacementTest, AnUnknownNodeIsNamed) {
  for (const NumaMode mode : {NumaMode::kBind, NumaMode::kInterleave}) {
    const Status planned = Plan(mode, {1, 3, 4, 7000});
    EXPECT_EQ(planned.code(), Code::kInvalidArgument);
    EXPECT_NE(planned.message().find("node 3-4,7000"), std::string::npos) << planned.message();
    EXPECT_NE(planned.message().find("node 0-2,5"), std::string::npos) << planned.message();
  }
}

TEST_F(StorePlacementTest, AKernelThatShowsNoNodesIsSaid) {
  const MadeUpMachine without_nodes;
  for (const NumaMode mode : {NumaMode::kBind, NumaMode::kInterleave}) {
    log_.Clear();
    Options options;
    options.numa = {mode, {1}};
    options.log = log_.Callback();
    const Status planned =
        StorePlacement::Plan(options, {without_nodes.root(), without_nodes.root()}, &placement_);
    ASSERT_TRUE(planned.ok()) << planned.ToString();
    placement_.PlaceThreads({}, options.log);
    EXPECT_TRUE(log_.Said("no NUMA nodes")) << lines();
    EXPECT_TRUE(placement_.memory().anywhere());
    EXPECT_TRUE(placement_.device_thread_cpus().empty());
  }
}

TEST_F(StorePlacementTest, NodesWithTooLittleMemoryAreSaid) {
  // 1000 KiB a node.
  budget_bytes_ = 2000 << 10;
  ASSERT_TRUE(Plan(NumaMode::kBind, {0}).ok());
  EXPECT_TRUE(log_.Said("memory_budget_bytes")) << lines();
  ASSERT_TRUE(Plan(NumaMode::kBind, {0, 1}).ok());
  EXPECT_FALSE(log_.Said("memory_budget_bytes")) << lines();
  // Pages of other nodes serve where those of one are used up.
  ASSERT_TRUE(Plan(NumaMode::kInterleave, {0}).ok());
  EXPECT_FALSE(log_.Said("memory_budget_bytes")) << lines();
}

TEST_F(StorePlacementTest, ThreadsRunNearTheDevices) {
  ASSERT_TRUE(Plan(NumaMode::kInterleave, {}, {makedev(259, 1)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), Ids{2});
  ASSERT_TRUE(Plan(NumaMode::kInterleave, {}, {makedev(259, 5), makedev(259, 1)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), (Ids{2, 3}));
  EXPECT_FALSE(log_.Said("names no node")) << lines();
  // Nothing is known of the device, or its node has no CPUs.
  for (const uint32_t number : {0, 2}) {
    ASSERT_TRUE(Plan(NumaMode::kInterleave, {}, {makedev(259, number)}).ok());
    EXPECT_TRUE(placement_.device_thread_cpus().empty());
    EXPECT_EQ(log_.Said("names no node for 1 of 1 devices"), number == 0) << lines();
  }
  ASSERT_TRUE(Plan(NumaMode::kBind, {0, 1}, {makedev(259, 0), makedev(259, 1)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), Ids{2});
  EXPECT_TRUE(log_.Said("names no node for 1 of 2 devices")) << lines();
}

TEST_F(StorePlacementTest, BoundThreadsStayOnTheNodes) {
  ASSERT_TRUE(Plan(NumaMode::kBind, {0}, {makedev(259, 1)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), (Ids{0, 1})) << "the device is elsewhere";
  ASSERT_TRUE(Plan(NumaMode::kBind, {1, 0}, {makedev(259, 1)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), Ids{2}) << "the device is on one of the nodes";
  ASSERT_TRUE(Plan(NumaMode::kBind, {0, 2, 0}, {makedev(259, 2)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), (Ids{0, 1})) << "the device's node has no CPUs";
  ASSERT_TRUE(Plan(NumaMode::kBind, {2}, {}).ok());
  EXPECT_TRUE(placement_.device_thread_cpus().empty());
  EXPECT_TRUE(log_.Said("no CPU of node 2")) << lines();
}

TEST_F(StorePlacementTest, BuildersRunOnAllNamedNodes) {
  ASSERT_TRUE(Plan(NumaMode::kBind, {0, 1}, {makedev(259, 1)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), Ids{2});
  EXPECT_EQ(placement_.build_cpus(), (Ids{0, 1, 2}));
  ASSERT_TRUE(Plan(NumaMode::kInterleave, {}, {makedev(259, 1)}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), Ids{2});
  EXPECT_TRUE(placement_.build_cpus().empty()) << "no node is named";
  ASSERT_TRUE(Plan(NumaMode::kNone, {}, {makedev(259, 1)}).ok());
  EXPECT_TRUE(placement_.build_cpus().empty());
  EXPECT_EQ(StorePlacement::LimitTo({0, 1, 2}, 8), 3u);
  EXPECT_EQ(StorePlacement::LimitTo({0, 1, 2}, 2), 2u);
  EXPECT_EQ(StorePlacement::LimitTo({}, 8), 8u);
}

TEST_F(StorePlacementTest, ThreadsTakeAllowedCpusAlone) {
  Allow("1-3", "0-2,5");
  ASSERT_TRUE(Plan(NumaMode::kBind, {0}, {}).ok());
  EXPECT_EQ(placement_.device_thread_cpus(), Ids{1});
  Allow("0-1", "0-2,5");
  ASSERT_TRUE(Plan(NumaMode::kBind, {0}, {}).ok());
  EXPECT_TRUE(placement_.device_thread_cpus().empty()) << "there is nothing else";
  EXPECT_FALSE(log_.Said("may use only")) << lines();
  ASSERT_TRUE(Plan(NumaMode::kBind, {1}, {}).ok());
  EXPECT_TRUE(placement_.device_thread_cpus().empty());
  EXPECT_TRUE(log_.Said("opening thread may use no CPU of node 1")) << lines();
}

TEST_F(StorePlacementTest, AnOpeningThreadWithFewCpusIsSaid) {
  Allow("0", "0-2,5");
  ASSERT_TRUE(Plan(NumaMode::kBind, {0}, {}).ok());
  EXPECT_TRUE(placement_.device_thread_cpus().empty());
  EXPECT_TRUE(placement_.build_cpus().empty());
  EXPECT_TRUE(log_.Said("may use only CPU 0, node 0 has more")) << lines();
  ASSERT_TRUE(Plan(NumaMode::kInterleave, {}, {}).ok());
  EXPECT_TRUE(log_.Said("may use only CPU 0, node 0-2,5 has more")) << lines();
}

TEST_F(StorePlacementTest, OfflineCpusBindNoThread) {
  Allow("0-7", "0-2,5");
  ASSERT_TRUE(Plan(NumaMode::kBind, {0, 1, 2, 5}).ok());
  EXPECT_TRUE(placement_.device_thread_cpus().empty()) << "the nodes have all CPUs that are online";
}

TEST_F(StorePlacementTest, MemoryLiesOnAllowedNodesThatHaveIt) {
  ASSERT_TRUE(Plan(NumaMode::kBind, {5}, {}).ok());
  EXPECT_TRUE(placement_.memory().anywhere());
  EXPECT_TRUE(log_.Said("no memory on node 5")) << lines();
  EXPECT_EQ(placement_.device_thread_cpus(), Ids{3}) << "threads are bound all the same";
  Allow("0-3", "1");
  ASSERT_TRUE(Plan(NumaMode::kBind, {0}, {}).ok());
  EXPECT_TRUE(placement_.memory().anywhere());
  EXPECT_TRUE(log_.Said("may not use the memory of node 0")) << lines();
}

TEST_F(StorePlacementTest, WhatTheKernelRefusesIsSaid) {
  // The made-up node is none of this machine's.
  machine_.SetOnline("0-2,5,1000");
  machine_.AddNode(1000, "", 1000, "20 20 20 20 10");
  for (const uint32_t node : {0, 1, 2, 5}) {
    machine_.Write("devices/system/node/node" + std::to_string(node) + "/distance",
                   "10 20 20 20 20\n");
  }
  Allow("0-3", "0-2,5,1000");
  ASSERT_TRUE(Plan(NumaMode::kBind, {1000}, {}).ok());
  EXPECT_TRUE(placement_.memory().anywhere());
  EXPECT_TRUE(log_.Said("wherever the kernel puts it: ")) << lines();
}

TEST_F(StorePlacementTest, FilesThatMakeNoSenseAreSaid) {
  machine_.Write("devices/system/node/node1/cpulist", "nonsense\n");
  ASSERT_TRUE(Plan(NumaMode::kBind, {0}, {makedev(259, 1)}).ok());
  EXPECT_TRUE(placement_.memory().anywhere());
  EXPECT_TRUE(placement_.device_thread_cpus().empty());
  EXPECT_TRUE(log_.Said("node1/cpulist")) << lines();
}

TEST_F(StorePlacementTest, OneNodeIsSaid) {
  const MadeUpMachine one;
  one.SetOnline("0");
  one.AddNode(0, "0-1", 1000, "10");
  Options options;
  options.numa = {NumaMode::kInterleave, {}};
  options.log = log_.Callback();
  ASSERT_TRUE(StorePlacement::Plan(options, {one.root(), one.root()}, &placement_).ok());
  EXPECT_TRUE(log_.Said("one node")) << lines();
}

TEST_F(StorePlacementTest, AThreadEntersItsCpus) {
  const Ids all = AvailableCpus();
  if (all.size() < 2) GTEST_SKIP() << "there is one CPU here";
  machine_.AddNode(1, std::to_string(all.back()), 1000, "20 10 20 20");
  machine_.AddNode(0, std::to_string(all.front()), 1000, "10 20 20 20");
  Allow(FormatList(all), "0-2,5");
  ASSERT_TRUE(Plan(NumaMode::kBind, {1}, {}).ok());
  Ids entered;
  Ids build_entered;
  std::thread([&] {
    placement_.EnterDeviceThread();
    entered = AvailableCpus();
  }).join();
  std::thread([&] {
    placement_.EnterBuildThread();
    build_entered = AvailableCpus();
  }).join();
  EXPECT_EQ(entered, Ids{all.back()});
  EXPECT_EQ(build_entered, Ids{all.back()});
  EXPECT_EQ(AvailableCpus(), all);
}

}  // namespace
}  // namespace engine_race::numa

#include "harness/numa/race_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/numa/report.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using numa::Allowed;
using numa::Node;
using numa::Topology;

constexpr uint64_t kLast = ~uint64_t{0};
constexpr uint64_t kMemory = 1 << 20;

// Four nodes with a CPU each, in two near pairs.
Topology FourNodes() {
  Topology topology;
  topology.from_kernel = true;
  topology.nodes = {
      Node{0, {0}, kMemory, {10, 20, 12, 20}}, Node{1, {1}, kMemory, {20, 10, 20, 12}},
      Node{2, {2}, kMemory, {12, 20, 10, 20}}, Node{3, {3}, kMemory, {20, 12, 20, 10}}};
  return topology;
}
const Allowed kAll = {{0, 1, 2, 3}, {0, 1, 2, 3}};

std::string WhyNot(const RaceRequest& request, const Topology& topology = FourNodes(),
                   const Allowed& allowed = kAll) {
  std::vector<InstancePlan> plans;
  const Status status = PlanRace(request, topology, allowed, &plans);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return status.message();
}

std::vector<InstancePlan> Planned(const RaceRequest& request,
                                  const Topology& topology = FourNodes(),
                                  const Allowed& allowed = kAll) {
  std::vector<InstancePlan> plans;
  const Status status = PlanRace(request, topology, allowed, &plans);
  EXPECT_TRUE(status.ok()) << status.message();
  return plans;
}

using Nodes = std::vector<uint32_t>;

TEST(RacePlanTest, AnInstanceANode) {
  const auto plans = Planned({.parent_dir = "/d"});
  ASSERT_EQ(plans.size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(plans[i].number, i);
    EXPECT_EQ(plans[i].cpu_nodes, Nodes{i});
    EXPECT_EQ(plans[i].memory_nodes, Nodes{i});
    EXPECT_EQ(plans[i].cpu_count, 1u);
    EXPECT_EQ(plans[i].dir, "/d/instance_" + std::to_string(i));
    EXPECT_EQ(plans[i].keys.first, i * (uint64_t{1} << 62));
  }
  EXPECT_EQ(plans[2].Name(), "instance 2 (nodes 2)");
}

TEST(RacePlanTest, GroupsAreOfNearNodes) {
  const auto plans = Planned({.group_count = 2});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].cpu_nodes, (Nodes{0, 2}));
  EXPECT_EQ(plans[1].cpu_nodes, (Nodes{1, 3}));
  EXPECT_EQ(plans[1].cpu_count, 2u);
}

TEST(RacePlanTest, NodesByHand) {
  const auto plans = Planned({.groups = {"3", "0-1"}});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].cpu_nodes, Nodes{3});
  EXPECT_EQ(plans[1].cpu_nodes, (Nodes{0, 1}));
}

TEST(RacePlanTest, NodesWithoutMemoryTakeItFromTheNearest) {
  Topology topology = FourNodes();
  topology.nodes[1].memory_bytes = 0;
  const auto plans = Planned({}, topology);
  ASSERT_EQ(plans.size(), 4u);
  EXPECT_EQ(plans[1].cpu_nodes, Nodes{1});
  EXPECT_EQ(plans[1].memory_nodes, Nodes{3});
  const auto pairs = Planned({.group_count = 2}, topology);
  EXPECT_EQ(pairs[1].cpu_nodes, (Nodes{1, 3}));
  EXPECT_EQ(pairs[1].memory_nodes, Nodes{3});
  for (Node& node : topology.nodes) node.memory_bytes = 0;
  EXPECT_NE(WhyNot({}, topology).find("no node has memory"), std::string::npos);
}

TEST(RacePlanTest, NodesWithoutCpusGiveOnlyMemory) {
  Topology topology = FourNodes();
  topology.nodes[2].cpus = {};
  const auto plans = Planned({}, topology);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].cpu_nodes, Nodes{0});
  EXPECT_EQ(plans[0].memory_nodes, (Nodes{0, 2}));
  EXPECT_NE(WhyNot({.groups = {"2"}}, topology).find("nodes 2 have no CPU"), std::string::npos);
}

// A container may have a part of the machine.
TEST(RacePlanTest, WhatIsNotAllowedIsNotUsed) {
  const Allowed part = {{1, 2}, {0, 1}};
  const auto plans = Planned({}, FourNodes(), part);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].cpu_nodes, Nodes{1});
  EXPECT_EQ(plans[0].memory_nodes.front(), 1u);
  EXPECT_EQ(plans[1].cpu_nodes, Nodes{2});
  EXPECT_EQ(plans[1].memory_nodes, Nodes{0});
  EXPECT_NE(WhyNot({.groups = {"3"}}, FourNodes(), part).find("no CPU that this process may use"),
            std::string::npos);
}

TEST(RacePlanTest, RefusesNodesThatCannotBe) {
  EXPECT_NE(WhyNot({.groups = {"0", "7"}}).find("there is no node 7"), std::string::npos);
  EXPECT_NE(WhyNot({.groups = {"0-1", "1"}}).find("node 1 is given twice"), std::string::npos);
  EXPECT_NE(WhyNot({.groups = {"0", "x"}}).find("\"x\" is no list"), std::string::npos);
  EXPECT_NE(WhyNot({.groups = {""}}).find("is no list"), std::string::npos);
  EXPECT_NE(WhyNot({.group_count = 5}).find("5 groups"), std::string::npos);
  EXPECT_NE(WhyNot({.group_count = 3, .groups = {"0"}}).find("different numbers"),
            std::string::npos);
}

TEST(RacePlanTest, KeyRangesByHandMustTileAllKeys) {
  const auto why = [](std::vector<std::string> ranges) {
    return WhyNot({.group_count = 2, .key_ranges = std::move(ranges)});
  };
  EXPECT_EQ(why({"0x8000000000000000-0xffffffffffffffff", "0-0x7fffffffffffffff"}), "");
  EXPECT_NE(why({"0-9", "9-0xffffffffffffffff"}).find("overlap"), std::string::npos);
  EXPECT_NE(why({"0-0xffffffffffffffff", "5-6"}).find("overlap"), std::string::npos);
  EXPECT_NE(why({"0-9", "11-0xffffffffffffffff"}).find("has 10-10"), std::string::npos);
  EXPECT_NE(why({"1-9", "10-0xffffffffffffffff"}).find("gap"), std::string::npos);
  EXPECT_NE(why({"0-9", "10-0xfffffffffffffffe"}).find("gap"), std::string::npos);
  EXPECT_NE(why({"0-0xffffffffffffffff"}).find("1 key ranges for 2"), std::string::npos);
  EXPECT_NE(why({"0-9", "9"}).find("no FIRST-LAST"), std::string::npos);
  EXPECT_NE(why({"0-9", "20-10"}).find("LAST comes first"), std::string::npos);
}

TEST(RacePlanTest, SplitsAllKeysEvenly) {
  for (const uint32_t count : {1u, 2u, 3u, 7u, 64u, 200u}) {
    const std::vector<KeyRange> ranges = SplitKeys(count);
    ASSERT_EQ(ranges.size(), count);
    EXPECT_TRUE(CheckKeyRanges(ranges).ok()) << count;
    uint64_t least = kLast;
    uint64_t most = 0;
    for (const KeyRange& range : ranges) {
      least = std::min(least, range.last - range.first);
      most = std::max(most, range.last - range.first);
    }
    EXPECT_LE(most - least, 1u) << count;
  }
}

TEST(RacePlanTest, DirectoriesByHandExistAndDiffer) {
  const test::TempDir temp;
  std::filesystem::create_directory(temp.Join("a"));
  std::filesystem::create_directory(temp.Join("b"));
  std::filesystem::create_directory_symlink(temp.Join("a"), temp.Join("link"));
  const auto request = [&](std::vector<std::string> names) {
    RaceRequest request = {.group_count = 2};
    for (const std::string& name : names) request.dirs.push_back(temp.Join(name));
    return request;
  };
  EXPECT_EQ(Planned(request({"a", "b"}))[1].dir,
            std::filesystem::canonical(temp.Join("b")).string());
  const std::string missing = WhyNot(request({"a", "c"}));
  EXPECT_NE(missing.find("instance 1 (nodes 1,3): there is no directory"), std::string::npos)
      << missing;
  EXPECT_NE(WhyNot(request({"a", "link"})).find("given twice"), std::string::npos);
  EXPECT_NE(WhyNot(request({"a"})).find("1 directories for 2"), std::string::npos);
}

InstanceResult ResultOf(double cpu_seconds, std::optional<double> code_local,
                        std::optional<double> heap_local) {
  InstanceResult result;
  InstancePhase& phase = result.phases.emplace_back();
  phase.name = "read";
  phase.seconds = 2;
  phase.cpu_seconds = cpu_seconds;
  ProcessMemory& placement = phase.placement.emplace();
  placement.kinds[static_cast<size_t>(MemoryKind::kCode)].local_share = code_local;
  placement.kinds[static_cast<size_t>(MemoryKind::kHeap)].local_share = heap_local;
  return result;
}

TEST(RaceReportTest, LeastShareIsOfWhatIsKnown) {
  std::vector<InstanceResult> results = {ResultOf(1, 0.5, 1.0), ResultOf(3, 0.25, std::nullopt)};
  EXPECT_EQ(LeastLocalShare(results, MemoryKind::kCode), 0.25);
  EXPECT_EQ(LeastLocalShare(results, MemoryKind::kHeap), 1.0);
  EXPECT_FALSE(LeastLocalShare(results, MemoryKind::kStacks).has_value());
  // A phase without a placement may have had anything.
  results[0].phases[0].placement.reset();
  EXPECT_FALSE(LeastLocalShare(results, MemoryKind::kCode).has_value());
}

TEST(RaceReportTest, ShowsTheHeapAndEachInstancesShareOfTheCpuTime) {
  const std::vector<InstanceResult> results = {ResultOf(1, 0.5, 0.125), ResultOf(3, 0.25, 1.0)};
  const nlohmann::json json = RaceJson(results, TextMode::kCopies, {}, "");
  EXPECT_EQ(json["heap_local"], 0.125);
  EXPECT_EQ(json["instances"][0]["phases"][0]["cpu_share"], 0.25);
  EXPECT_EQ(json["instances"][1]["phases"][0]["cpu_share"], 0.75);
  const std::string text = RaceText(results);
  for (const char* word : {"CPU of all %", "heap local %", "25.0", "75.0", "12.50"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  }
}

// How the nodes of made-up machines come together in groups.

using Ids = std::vector<uint32_t>;
using Groups = std::vector<Ids>;

void AddNode(Topology* topology, uint32_t id, const Ids& cpus, const Ids& distances) {
  Node node;
  node.id = id;
  node.cpus = cpus;
  node.memory_bytes = 1024;
  node.distances = distances;
  topology->nodes.push_back(node);
}

TEST(NearNodesTest, PairsAreNearNodes) {
  Topology topology;
  // 0 is near 2, and 1 is near 3.
  AddNode(&topology, 0, {0}, {10, 40, 12, 40});
  AddNode(&topology, 1, {1}, {40, 10, 40, 12});
  AddNode(&topology, 2, {2}, {12, 40, 10, 40});
  AddNode(&topology, 3, {3}, {40, 12, 40, 10});
  Groups groups;
  ASSERT_TRUE(GroupNearNodes(topology, 2, &groups).ok());
  EXPECT_EQ(groups, (Groups{{0, 2}, {1, 3}}));
  ASSERT_TRUE(GroupNearNodes(topology, 4, &groups).ok());
  EXPECT_EQ(groups, (Groups{{0}, {1}, {2}, {3}}));
  ASSERT_TRUE(GroupNearNodes(topology, 3, &groups).ok());
  EXPECT_EQ(groups, (Groups{{0, 2}, {1}, {3}}));
  ASSERT_TRUE(GroupNearNodes(topology, 1, &groups).ok());
  EXPECT_EQ(groups, (Groups{{0, 1, 2, 3}}));
  for (const uint32_t bad : {0, 5}) {
    EXPECT_EQ(GroupNearNodes(topology, bad, &groups).code(), Code::kInvalidArgument);
  }
}

TEST(NearNodesTest, MemoryAloneJoinsTheNearestGroup) {
  Topology topology;
  AddNode(&topology, 0, {0, 1, 8}, {10, 31, 12, 21});
  AddNode(&topology, 1, {}, {31, 10, 31, 17});
  AddNode(&topology, 4, {2, 3}, {12, 31, 10, 21});
  AddNode(&topology, 6, {4, 5, 6, 7}, {21, 17, 21, 10});
  Groups groups;
  ASSERT_TRUE(GroupNearNodes(topology, 2, &groups).ok());
  EXPECT_EQ(groups, (Groups{{0, 4}, {1, 6}}));
}

}  // namespace
}  // namespace engine_race::harness

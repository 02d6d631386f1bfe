// How the nodes of made-up machines come together in groups.
#include "harness/numa/race_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace engine_race::harness {
namespace {

using numa::Node;
using numa::Topology;
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

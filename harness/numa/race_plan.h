// Which instances a race over NUMA nodes has: the nodes, the keys and the directory of each.
//
// All that can be wrong with them is found here, before anything is made or started. Plain values
// and functions that change nothing.
#ifndef HARNESS_NUMA_RACE_PLAN_H_
#define HARNESS_NUMA_RACE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/key_range.h"
#include "engine_race/base/status.h"
#include "engine_race/numa/topology.h"

namespace engine_race::harness {

struct InstancePlan {
  // From 0 on.
  uint32_t number = 0;
  // Nodes whose CPUs it runs on.
  std::vector<uint32_t> cpu_nodes;
  // Nodes that its memory comes from: those of its group that have some, else the nearest one.
  std::vector<uint32_t> memory_nodes;
  uint32_t cpu_count = 0;
  KeyRange keys;
  // Holds its store, its copy of the program and its log.
  std::string dir;

  // "instance 2 (nodes 4-5)"
  std::string Name() const;
};

// The user's wishes. An empty one is left to PlanRace.
struct RaceRequest {
  // Groups of near nodes; 0: a group a node.
  uint32_t group_count = 0;
  // Lists of nodes, "0-1", one an instance.
  std::vector<std::string> groups = {};
  // "FIRST-LAST", one an instance.
  std::vector<std::string> key_ranges = {};
  // Directories that are there, one an instance.
  std::vector<std::string> dirs = {};
  // Otherwise the instances have directories of their own below this one.
  std::string parent_dir = {};
};

// The nodes that have CPUs, in `group_count` groups of near nodes whose sizes differ by one at
// most. Each group ascends, and groups are in order of their first nodes. A node without CPUs joins
// the nearest group. kInvalidArgument when there are fewer nodes with CPUs than groups.
Status GroupNearNodes(const numa::Topology& topology, uint32_t group_count,
                      std::vector<std::vector<uint32_t>>* groups);

// The key space in `count` parts of the same size, to one key.
std::vector<KeyRange> SplitKeys(uint32_t count);
// kInvalidArgument, naming the keys, unless each key is in one range and in one only.
Status CheckKeyRanges(const std::vector<KeyRange>& ranges);

// kInvalidArgument, with the reason, when the request cannot be met on this machine.
Status PlanRace(const RaceRequest& request, const numa::Topology& topology,
                const numa::Allowed& allowed, std::vector<InstancePlan>* instances);

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_RACE_PLAN_H_

// Groups of near NUMA nodes, one for each instance of a program.
//
// A stateless function.
#ifndef HARNESS_NUMA_NEAR_NODES_H_
#define HARNESS_NUMA_NEAR_NODES_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/numa/topology.h"

namespace harness {

// The nodes that have CPUs, in `group_count` groups of near nodes whose sizes differ by one at
// most. Each group ascends, and groups are in order of their first nodes. A node without CPUs joins
// the nearest group. kInvalidArgument when there are fewer nodes with CPUs than groups.
engine_race::Status GroupNearNodes(const engine_race::numa::Topology& topology,
                                   uint32_t group_count,
                                   std::vector<std::vector<uint32_t>>* groups);

}  // namespace harness

#endif  // HARNESS_NUMA_NEAR_NODES_H_

// Groups are filled one after the other. A group begins with the first node that is left, and takes
// the node whose distances to the group's nodes add up to the least, until it is full. Firmware
// tables are regular (sockets of equal size), and there this finds the sockets.
#include "harness/numa/near_nodes.h"

#include <algorithm>
#include <string>
#include <utility>

namespace harness {
namespace {

using engine_race::Status;
using engine_race::numa::Node;
using engine_race::numa::Topology;

// Both ways: the tables need not be symmetric.
uint64_t DistanceToGroup(const Topology& topology, uint32_t id,
                         const std::vector<uint32_t>& group) {
  uint64_t sum = 0;
  for (const uint32_t member : group) {
    sum += topology.Distance(id, member) + topology.Distance(member, id);
  }
  return sum;
}

// The place of the nearest of `ids`, the first among equals.
size_t Nearest(const Topology& topology, const std::vector<uint32_t>& ids,
               const std::vector<uint32_t>& group) {
  size_t best = 0;
  for (size_t i = 1; i < ids.size(); ++i) {
    if (DistanceToGroup(topology, ids[i], group) < DistanceToGroup(topology, ids[best], group)) {
      best = i;
    }
  }
  return best;
}

}  // namespace

Status GroupNearNodes(const Topology& topology, uint32_t group_count,
                      std::vector<std::vector<uint32_t>>* groups) {
  std::vector<uint32_t> with_cpus;
  std::vector<uint32_t> without_cpus;
  for (const Node& node : topology.nodes) {
    (node.cpus.empty() ? without_cpus : with_cpus).push_back(node.id);
  }
  if (group_count == 0 || group_count > with_cpus.size()) {
    return Status::InvalidArgument(std::to_string(group_count) + " groups of nodes: there are " +
                                   std::to_string(with_cpus.size()) + " nodes with CPUs");
  }
  groups->clear();
  for (uint32_t left = group_count; left > 0; --left) {
    const size_t size = (with_cpus.size() + left - 1) / left;
    std::vector<uint32_t> group = {with_cpus.front()};
    with_cpus.erase(with_cpus.begin());
    while (group.size() < size) {
      const size_t nearest = Nearest(topology, with_cpus, group);
      group.push_back(with_cpus[nearest]);
      with_cpus.erase(with_cpus.begin() + static_cast<ptrdiff_t>(nearest));
    }
    groups->push_back(std::move(group));
  }
  // Nodes with CPUs alone count for the distance, so that groups differ in it by what they are.
  const std::vector<std::vector<uint32_t>> heads = *groups;
  for (const uint32_t id : without_cpus) {
    size_t best = 0;
    const auto mean = [&](size_t g) {
      return static_cast<double>(DistanceToGroup(topology, id, heads[g])) /
             static_cast<double>(heads[g].size());
    };
    for (size_t g = 1; g < heads.size(); ++g) {
      if (mean(g) < mean(best)) best = g;
    }
    (*groups)[best].push_back(id);
  }
  for (std::vector<uint32_t>& group : *groups) std::sort(group.begin(), group.end());
  return Status::Ok();
}

}  // namespace harness

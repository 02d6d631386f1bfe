#include "harness/numa/race_run.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "engine_race/base/key.h"
#include "harness/data/key_source.h"
#include "harness/numa/process_memory.h"

namespace engine_race::harness {
namespace {

using numa::Allowed;
using numa::FormatList;
using numa::Node;
using numa::Topology;
using Groups = std::vector<std::vector<uint32_t>>;

constexpr uint64_t kLastKey = ~uint64_t{0};

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

Status ParseGroups(const std::vector<std::string>& lists, const Topology& topology,
                   Groups* groups) {
  std::set<uint32_t> taken;
  for (const std::string& list : lists) {
    std::vector<uint32_t> group;
    if (!numa::ParseList(list, numa::kMaxNodeCount, &group) || group.empty()) {
      return Status::InvalidArgument("\"" + list + "\" is no list of nodes such as 0,2-3");
    }
    for (const uint32_t node : group) {
      if (topology.Find(node) == nullptr) {
        return Status::InvalidArgument("there is no node " + std::to_string(node));
      }
      if (!taken.insert(node).second) {
        return Status::InvalidArgument("node " + std::to_string(node) + " is given twice");
      }
    }
    groups->push_back(std::move(group));
  }
  return Status::Ok();
}

uint32_t CountNodesWithCpus(const Topology& topology) {
  return static_cast<uint32_t>(std::count_if(topology.nodes.begin(), topology.nodes.end(),
                                             [](const Node& node) { return !node.cpus.empty(); }));
}

Status PlaceInstance(const Topology& topology, const std::vector<uint32_t>& group,
                     InstancePlan* instance) {
  for (const uint32_t id : group) {
    const Node* node = topology.Find(id);
    if (node->HasMemory()) instance->memory_nodes.push_back(id);
    if (node->cpus.empty()) continue;
    instance->cpu_nodes.push_back(id);
    instance->cpu_count += static_cast<uint32_t>(node->cpus.size());
  }
  if (instance->cpu_nodes.empty()) {
    return Status::InvalidArgument("nodes " + FormatList(group) +
                                   " have no CPU that this process may use");
  }
  if (!instance->memory_nodes.empty()) return Status::Ok();
  const std::optional<uint32_t> nearest = NearestMemory(topology, instance->cpu_nodes);
  if (!nearest) return Status::InvalidArgument("no node has memory that this process may use");
  instance->memory_nodes = {*nearest};
  return Status::Ok();
}

Status ChooseKeys(const std::vector<std::string>& texts, std::vector<InstancePlan>* instances) {
  std::vector<KeyRange> ranges;
  for (const std::string& text : texts) {
    const std::optional<KeyRange> range = ParseKeyRange(text);
    if (!range) {
      return Status::InvalidArgument("\"" + text + "\" is no FIRST-LAST, or LAST comes first");
    }
    ranges.push_back(*range);
  }
  const auto count = static_cast<uint32_t>(instances->size());
  if (ranges.empty()) ranges = SplitKeys(count);
  if (ranges.size() != count) {
    return Status::InvalidArgument(std::to_string(ranges.size()) + " key ranges for " +
                                   std::to_string(count) + " instances");
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckKeyRanges(ranges));
  for (uint32_t i = 0; i < count; ++i) (*instances)[i].keys = ranges[i];
  return Status::Ok();
}

Status ChooseDirs(const RaceRequest& request, std::vector<InstancePlan>* instances) {
  namespace fs = std::filesystem;
  if (!request.dirs.empty() && request.dirs.size() != instances->size()) {
    return Status::InvalidArgument(std::to_string(request.dirs.size()) + " directories for " +
                                   std::to_string(instances->size()) + " instances");
  }
  std::set<fs::path> taken;
  for (InstancePlan& instance : *instances) {
    if (request.dirs.empty()) {
      instance.dir = request.parent_dir + "/instance_" + std::to_string(instance.number);
      continue;
    }
    const std::string& dir = request.dirs[instance.number];
    std::error_code error;
    if (!fs::is_directory(dir, error)) {
      return Status::InvalidArgument(instance.Name() + ": there is no directory " + dir);
    }
    instance.dir = fs::canonical(dir, error).string();
    if (error) return Status::InvalidArgument(dir + ": " + error.message());
    if (!taken.insert(instance.dir).second) {
      return Status::InvalidArgument("directory " + dir + " is given twice");
    }
  }
  return Status::Ok();
}

}  // namespace

std::string InstancePlan::Name() const {
  return "instance " + std::to_string(number) + " (nodes " + FormatList(cpu_nodes) + ")";
}

std::vector<KeyRange> SplitKeys(uint32_t count) {
  std::vector<KeyRange> ranges;
  ranges.reserve(count);
  const auto border = [&](uint32_t i) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(i) << 64) / count);
  };
  for (uint32_t i = 0; i < count; ++i) {
    ranges.push_back({i == 0 ? 0 : border(i), i + 1 == count ? kLastKey : border(i + 1) - 1});
  }
  return ranges;
}

Status CheckKeyRanges(const std::vector<KeyRange>& ranges) {
  std::vector<KeyRange> sorted = ranges;
  std::sort(sorted.begin(), sorted.end(),
            [](const KeyRange& a, const KeyRange& b) { return a.first < b.first; });
  // The first key that no range so far has; past the last one it is 0 again.
  uint64_t next = 0;
  bool is_full = false;
  for (const KeyRange& range : sorted) {
    if (is_full || range.first < next) {
      return Status::InvalidArgument("key ranges overlap: " + ToString(range) +
                                     " begins inside another one");
    }
    if (range.first > next) {
      return Status::InvalidArgument("key ranges leave a gap: no instance has " +
                                     ToString({next, range.first - 1}));
    }
    next = range.last + 1;
    is_full = range.last == kLastKey;
  }
  if (is_full) return Status::Ok();
  return Status::InvalidArgument("key ranges leave a gap: no instance has " +
                                 ToString({next, kLastKey}));
}

// Groups are filled one after the other. A group begins with the first node that is left, and takes
// the node whose distances to the group's nodes add up to the least, until it is full. Firmware
// tables are regular (sockets of equal size), and there this finds the sockets.
Status GroupNearNodes(const Topology& topology, uint32_t group_count, Groups* groups) {
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

Status PlanRace(const RaceRequest& request, const Topology& topology, const Allowed& allowed,
                std::vector<InstancePlan>* instances) {
  const Topology usable = AllowedPart(topology, allowed);
  Groups groups;
  if (!request.groups.empty()) {
    if (request.group_count != 0 && request.group_count != request.groups.size()) {
      return Status::InvalidArgument("--groups and --nodes name different numbers of instances");
    }
    ENGINE_RACE_RETURN_IF_ERROR(ParseGroups(request.groups, usable, &groups));
  } else {
    const uint32_t count =
        request.group_count == 0 ? CountNodesWithCpus(usable) : request.group_count;
    ENGINE_RACE_RETURN_IF_ERROR(GroupNearNodes(usable, count, &groups));
  }
  instances->assign(groups.size(), {});
  for (uint32_t i = 0; i < groups.size(); ++i) {
    InstancePlan& instance = (*instances)[i];
    instance.number = i;
    ENGINE_RACE_RETURN_IF_ERROR(PlaceInstance(usable, groups[i], &instance));
  }
  ENGINE_RACE_RETURN_IF_ERROR(ChooseKeys(request.key_ranges, instances));
  return ChooseDirs(request, instances);
}

}  // namespace engine_race::harness

#include "engine_race/numa/store_placement.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "engine_race/numa/binding.h"

namespace engine_race::numa {
namespace {

std::vector<uint32_t> IdsOf(const Topology& topology) {
  std::vector<uint32_t> ids;
  for (const Node& node : topology.nodes) ids.push_back(node.id);
  return ids;
}

// Of two ascending lists.
std::vector<uint32_t> Common(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

std::vector<uint32_t> Missing(const std::vector<uint32_t>& wanted,
                              const std::vector<uint32_t>& there) {
  std::vector<uint32_t> missing;
  std::set_difference(wanted.begin(), wanted.end(), there.begin(), there.end(),
                      std::back_inserter(missing));
  return missing;
}

void MakeAscending(std::vector<uint32_t>* numbers) {
  std::sort(numbers->begin(), numbers->end());
  numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
}

std::vector<uint32_t> OnlineCpusOf(const Topology& topology, std::span<const uint32_t> nodes) {
  std::vector<uint32_t> cpus;
  for (const uint32_t id : nodes) {
    const Node& node = *topology.Find(id);
    cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
  }
  MakeAscending(&cpus);
  return cpus;
}

Status CheckNodes(const std::vector<uint32_t>& nodes, const Topology& topology) {
  const std::vector<uint32_t> unknown = Missing(nodes, IdsOf(topology));
  if (unknown.empty()) return Status::Ok();
  return Status::InvalidArgument("numa names node " + FormatList(unknown) +
                                 ", but the machine has node " + FormatList(IdsOf(topology)));
}

}  // namespace

Status StorePlacement::Plan(const Options& options, const Roots& roots, StorePlacement* placement) {
  StorePlacement planned;
  planned.mode_ = options.numa.mode;
  planned.roots_ = roots;
  planned.nodes_ = options.numa.nodes;
  if (planned.mode_ != NumaMode::kNone) {
    MakeAscending(&planned.nodes_);
    Status read = ReadTopology(roots.sysfs, &planned.topology_);
    // The nodes may be there all the same, as in a container that hides sysfs.
    if (read.ok() && !planned.topology_.from_kernel) {
      read = Status::NotSupported("the kernel shows no NUMA nodes");
    }
    if (read.ok()) {
      ENGINE_RACE_RETURN_IF_ERROR(CheckNodes(planned.nodes_, planned.topology_));
      if (planned.nodes_.empty()) planned.nodes_ = IdsOf(planned.topology_);
      read = ReadAllowed(roots.proc + "/thread-self", planned.topology_, &planned.allowed_);
    }
    if (read.ok()) {
      planned.PlaceMemory(options);
    } else {
      Log(options.log, LogLevel::kWarning, "numa: nothing is placed: " + read.ToString());
      planned = StorePlacement();
    }
  }
  *placement = std::move(planned);
  return Status::Ok();
}

void StorePlacement::PlaceMemory(const Options& options) {
  const LogFn& log = options.log;
  if (topology_.nodes.size() == 1) {
    Log(log, LogLevel::kInfo, "numa: the machine has one node, all memory is near");
  }
  const std::vector<uint32_t> forbidden = Missing(nodes_, allowed_.nodes);
  if (!forbidden.empty()) {
    Log(log, LogLevel::kWarning,
        "numa: the process may not use the memory of node " + FormatList(forbidden));
  }
  std::vector<uint32_t> usable;
  std::vector<uint32_t> empty;
  for (const uint32_t node : Common(nodes_, allowed_.nodes)) {
    (topology_.Find(node)->HasMemory() ? usable : empty).push_back(node);
  }
  // Interleaving over all nodes means all that have memory.
  if (!empty.empty() && (mode_ == NumaMode::kBind || usable.empty())) {
    Log(log, LogLevel::kWarning, "numa: there is no memory on node " + FormatList(empty));
  }
  if (usable.empty()) {
    Log(log, LogLevel::kWarning, "numa: memory lies wherever the kernel puts it");
    return;
  }
  const Placement wanted(
      mode_ == NumaMode::kBind ? Placement::Mode::kBind : Placement::Mode::kInterleave, usable);
  if (const Status tried = TryPlacement(wanted); !tried.ok()) {
    Log(log, LogLevel::kWarning,
        "numa: memory lies wherever the kernel puts it: " + tried.ToString());
    return;
  }
  memory_ = wanted;
  if (mode_ == NumaMode::kBind) WarnOfLittleMemory(usable, options);
}

// The kernel takes no page from other nodes: it ends a process for which these have none left.
void StorePlacement::WarnOfLittleMemory(std::span<const uint32_t> nodes,
                                        const Options& options) const {
  uint64_t bytes = 0;
  for (const uint32_t node : nodes) bytes += topology_.Find(node)->memory_bytes;
  if (bytes >= options.memory_budget_bytes) return;
  Log(options.log, LogLevel::kWarning,
      "numa: the nodes have " + std::to_string(bytes) +
          " bytes of memory, memory_budget_bytes is " +
          std::to_string(options.memory_budget_bytes) +
          ": the kernel may end the process for want of memory");
}

std::vector<uint32_t> StorePlacement::NodesOfThreads(std::span<const dev_t> devices,
                                                     const LogFn& log) const {
  std::vector<uint32_t> near;
  for (const dev_t device : devices) {
    const std::optional<uint32_t> node = NodeOfDevice(roots_.sysfs, device);
    if (node) near.push_back(*node);
  }
  const size_t unknown_count = devices.size() - near.size();
  if (unknown_count > 0 && topology_.nodes.size() > 1) {
    Log(log, LogLevel::kInfo,
        "numa: the kernel names no node for " + std::to_string(unknown_count) + " of " +
            std::to_string(devices.size()) + " devices: no thread is placed by these");
  }
  MakeAscending(&near);
  near = Common(near, nodes_);
  // A device's node may have memory alone.
  return CpusOf(near).empty() && mode_ == NumaMode::kBind ? nodes_ : near;
}

std::vector<uint32_t> StorePlacement::CpusOf(std::span<const uint32_t> nodes) const {
  return Common(OnlineCpusOf(topology_, nodes), allowed_.cpus);
}

void StorePlacement::PlaceThreads(std::span<const dev_t> devices, const LogFn& log) {
  device_thread_cpus_.clear();
  build_cpus_.clear();
  if (mode_ == NumaMode::kNone) return;
  const std::vector<uint32_t> nodes = NodesOfThreads(devices, log);
  std::vector<uint32_t> cpus = CpusOf(nodes);
  std::vector<uint32_t> named_cpus = CpusOf(nodes_);
  if (cpus.empty() && mode_ == NumaMode::kBind) {
    Log(log, LogLevel::kWarning,
        "numa: the opening thread may use no CPU of node " + FormatList(nodes) +
            ": threads run wherever the kernel puts them");
  }
  // The allowed CPUs may include some that are offline.
  const std::vector<uint32_t> all_cpus = CpusOf(IdsOf(topology_));
  const auto clear_if_all = [&](std::vector<uint32_t>* list, const std::vector<uint32_t>& of) {
    if (*list != all_cpus) return false;
    list->clear();
    return OnlineCpusOf(topology_, of).size() > all_cpus.size();
  };
  const bool few_cpus = clear_if_all(&cpus, nodes);
  const bool few_named_cpus = clear_if_all(&named_cpus, nodes_);
  if (few_cpus || few_named_cpus) {
    Log(log, LogLevel::kInfo,
        "numa: the opening thread may use only CPU " + FormatList(all_cpus) + ", node " +
            FormatList(few_cpus ? nodes : nodes_) +
            " has more: threads inherit the CPUs of the threads that start them");
  }
  if (cpus.empty() && named_cpus.empty()) return;
  if (const Status tried = TryRunOn(); !tried.ok()) {
    Log(log, LogLevel::kWarning,
        "numa: threads run wherever the kernel puts them: " + tried.ToString());
    return;
  }
  device_thread_cpus_ = std::move(cpus);
  build_cpus_ = std::move(named_cpus);
}

void StorePlacement::Enter(const std::vector<uint32_t>& cpus) noexcept {
  if (cpus.empty()) return;
  try {
    // A refusal costs speed and nothing else. PlaceThreads has said what is wrong.
    static_cast<void>(RunOn(cpus));
  } catch (const std::bad_alloc&) {
    // The thread then runs wherever the kernel puts it.
  }
}

}  // namespace engine_race::numa

#include "harness/numa/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "engine_race/base/sys.h"

namespace engine_race::harness {
namespace {

using numa::Allowed;
using numa::Node;
using numa::Topology;

void Add(const NodeBytes& bytes, NodeBytes* sum) {
  for (const auto& [node, count] : bytes) (*sum)[node] += count;
}

// What glibc puts below the stack of a thread.
constexpr uint64_t kGuardBytes = 4096;

// A thread's stack carries no name: it is known by the guard page that touches its lower end.
bool IsThreadStack(const std::vector<Mapping>& mappings, const Mapping& mapping) {
  if (mapping.HasFile() || !mapping.path.empty() || !mapping.writable) return false;
  const Mapping* below = mapping.start == 0 ? nullptr : FindMapping(mappings, mapping.start - 1);
  return below != nullptr && !below->HasFile() && !below->readable && !below->writable &&
         !below->executable && below->end - below->start == kGuardBytes;
}

MemoryKind KindOf(const NumaMapping& numa, const Mapping* mapping,
                  const std::vector<Mapping>& mappings) {
  if (mapping != nullptr && mapping->executable) return MemoryKind::kCode;
  if (numa.is_stack || (mapping != nullptr && mapping->path == "[stack]")) {
    return MemoryKind::kStacks;
  }
  if (numa.is_heap || (mapping != nullptr && mapping->path == "[heap]")) return MemoryKind::kHeap;
  if (mapping != nullptr && IsThreadStack(mappings, *mapping)) return MemoryKind::kStacks;
  // A private mapping whose pages have all been written to holds nothing of its file any more.
  const bool is_copied = numa.pages > 0 && numa.anonymous_pages == numa.pages;
  const bool is_shared = mapping != nullptr && mapping->shared;
  if (!numa.file.empty() && (is_shared || !is_copied)) return MemoryKind::kFiles;
  return MemoryKind::kAnonymous;
}

// Whole, in large steps: the kernel makes the text anew at each one.
Status ReadText(const std::string& path, std::string* text) {
  constexpr size_t kStepBytes = size_t{1} << 20;
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, path, O_RDONLY, /*mode=*/0, &fd));
  text->clear();
  for (size_t got = kStepBytes; got == kStepBytes;) {
    const size_t begin = text->size();
    text->resize(begin + kStepBytes);
    ENGINE_RACE_RETURN_IF_ERROR(
        sys::Pread(fd.get(), text->data() + begin, kStepBytes, begin, &got));
    text->resize(begin + got);
  }
  return Status::Ok();
}

template <typename AnyMapping>
Status ReadMappings(const std::string& path,
                    Status (*parse)(std::string_view, std::vector<AnyMapping>*),
                    std::vector<AnyMapping>* mappings) {
  std::string text;
  ENGINE_RACE_RETURN_IF_ERROR(ReadText(path, &text));
  return parse(text, mappings).Prefixed(path + ": ");
}

bool Holds(const std::vector<uint32_t>& ascending, uint32_t number) {
  return std::binary_search(ascending.begin(), ascending.end(), number);
}

// Finds the nodes that are local to the process of `task_dir`, by the CPUs that it may run on.
Status FindLocalNodes(const std::string& task_dir, const Topology& topology,
                      ProcessMemory* memory) {
  Allowed allowed;
  ENGINE_RACE_RETURN_IF_ERROR(numa::ReadAllowed(task_dir, topology, &allowed));
  const Topology usable = AllowedPart(topology, allowed);
  memory->cpus.clear();
  for (const Node& node : usable.nodes) {
    memory->cpus.insert(memory->cpus.end(), node.cpus.begin(), node.cpus.end());
  }
  std::sort(memory->cpus.begin(), memory->cpus.end());
  memory->cpu_nodes = NodesOfCpus(memory->cpus, topology);
  std::set<uint32_t> local;
  for (const uint32_t node : memory->cpu_nodes) {
    local.insert(usable.Find(node)->HasMemory() ? node
                                                : NearestMemory(usable, {node}).value_or(node));
  }
  memory->local_nodes.assign(local.begin(), local.end());
  memory->is_bound = std::any_of(
      topology.nodes.begin(), topology.nodes.end(),
      [&](const Node& node) { return !node.cpus.empty() && !Holds(memory->cpu_nodes, node.id); });
  return Status::Ok();
}

// Of the process in the folder `dir`. Threads that end meanwhile are left out.
std::map<std::string, uint32_t> ThreadsByCpus(const std::string& dir) {
  std::map<std::string, uint32_t> threads;
  std::error_code error;
  std::filesystem::directory_iterator task(dir + "/task", error);
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::string text;
    if (!ReadText(task->path().string() + "/status", &text).ok()) continue;
    if (const auto list = StatusField(text, "Cpus_allowed_list")) ++threads[*list];
  }
  return threads;
}

}  // namespace

const char* MemoryKindName(MemoryKind kind) {
  constexpr const char* kNames[] = {"code", "heap", "anonymous", "files", "stacks"};
  return kNames[static_cast<size_t>(kind)];
}

uint64_t SumOf(const NodeBytes& bytes) {
  uint64_t sum = 0;
  for (const auto& [node, count] : bytes) sum += count;
  return sum;
}

std::optional<double> ShareOn(const NodeBytes& bytes, const std::vector<uint32_t>& nodes) {
  const uint64_t all = SumOf(bytes);
  if (all == 0) return std::nullopt;
  uint64_t there = 0;
  for (const uint32_t node : nodes) {
    const auto found = bytes.find(node);
    if (found != bytes.end()) there += found->second;
  }
  return static_cast<double>(there) / static_cast<double>(all);
}

double WeightedDistance(const NodeBytes& bytes, const std::vector<uint32_t>& cpus,
                        const Topology& topology) {
  double sum = 0;
  double weight = 0;
  for (const uint32_t cpu : cpus) {
    const std::optional<uint32_t> from = topology.NodeOfCpu(cpu);
    if (!from) continue;
    for (const auto& [to, count] : bytes) {
      sum += static_cast<double>(count) * topology.Distance(*from, to);
      weight += static_cast<double>(count);
    }
  }
  return weight == 0 ? 0 : sum / weight;
}

void SortByKind(const std::vector<NumaMapping>& numa_mappings, const std::vector<Mapping>& mappings,
                ProcessMemory* memory) {
  memory->kinds = {};
  memory->huge_code_bytes = 0;
  memory->bytes_by_policy.clear();
  memory->bytes_by_file.clear();
  for (const NumaMapping& numa : numa_mappings) {
    const Mapping* mapping = FindMapping(mappings, numa.start);
    const MemoryKind kind = KindOf(numa, mapping, mappings);
    Add(numa.bytes, &memory->kinds[static_cast<size_t>(kind)].bytes);
    Add(numa.bytes, &memory->kinds.back().bytes);
    if (kind == MemoryKind::kCode) {
      memory->huge_code_bytes += mapping->huge_bytes;
    } else if (kind == MemoryKind::kFiles) {
      Add(numa.bytes, &memory->bytes_by_file[numa.file]);
    } else {
      Add(numa.bytes, &memory->bytes_by_policy[numa.policy]);
    }
  }
}

void MeasureKinds(const Topology& topology, ProcessMemory* memory) {
  for (ProcessMemory::Kind& kind : memory->kinds) {
    kind.local_share = ShareOn(kind.bytes, memory->local_nodes);
    kind.distance = WeightedDistance(kind.bytes, memory->cpus, topology);
  }
}

std::vector<uint32_t> NodesOfCpus(const std::vector<uint32_t>& cpus, const Topology& topology) {
  std::set<uint32_t> nodes;
  for (const uint32_t cpu : cpus) {
    if (const std::optional<uint32_t> node = topology.NodeOfCpu(cpu)) nodes.insert(*node);
  }
  return {nodes.begin(), nodes.end()};
}

std::optional<uint32_t> NearestMemory(const Topology& topology,
                                      const std::vector<uint32_t>& nodes) {
  std::optional<uint32_t> nearest;
  uint64_t least = 0;
  for (const Node& node : topology.nodes) {
    if (!node.HasMemory()) continue;
    uint64_t distance = 0;
    for (const uint32_t from : nodes) distance += topology.Distance(from, node.id);
    if (!nearest || distance < least) {
      nearest = node.id;
      least = distance;
    }
  }
  return nearest;
}

Topology AllowedPart(const Topology& topology, const Allowed& allowed) {
  Topology part = topology;
  for (Node& node : part.nodes) {
    std::erase_if(node.cpus, [&](uint32_t cpu) { return !Holds(allowed.cpus, cpu); });
    if (!Holds(allowed.nodes, node.id)) node.memory_bytes = 0;
  }
  return part;
}

Status ReadNumaMaps(const std::string& path, std::vector<NumaMapping>* mappings) {
  if (::access(path.c_str(), F_OK) != 0) {
    return Status::NotSupported(path + " is missing: this kernel has no NUMA");
  }
  return ReadMappings(path, ParseNumaMaps, mappings);
}

Status ReadProcessMemory(const std::string& proc_root, int64_t pid, const Topology& topology,
                         const std::vector<uint32_t>& local_nodes, ProcessMemory* memory) {
  const std::string dir = proc_root + "/" + std::to_string(pid);
  memory->pid = pid;
  std::string status_text;
  if (!ReadText(dir + "/status", &status_text).ok()) {
    return Status(Code::kNotFound, "there is no process " + std::to_string(pid));
  }
  memory->name = StatusField(status_text, "Name").value_or("");
  ENGINE_RACE_RETURN_IF_ERROR(FindLocalNodes(dir, topology, memory));
  if (!local_nodes.empty()) memory->local_nodes = local_nodes;
  std::vector<NumaMapping> numa_mappings;
  std::vector<Mapping> mappings;
  ENGINE_RACE_RETURN_IF_ERROR(ReadNumaMaps(dir + "/numa_maps", &numa_mappings));
  // smaps says what lies on huge pages; maps alone does where it is not to be had.
  if (!ReadMappings(dir + "/smaps", ParseMaps, &mappings).ok()) {
    ENGINE_RACE_RETURN_IF_ERROR(ReadMappings(dir + "/maps", ParseMaps, &mappings));
  }
  SortByKind(numa_mappings, mappings, memory);
  MeasureKinds(topology, memory);
  memory->threads_by_cpus = ThreadsByCpus(dir);
  return Status::Ok();
}

}  // namespace engine_race::harness

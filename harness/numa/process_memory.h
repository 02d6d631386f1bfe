// Where the memory of one process lies: bytes by kind and node, and how far that is from its CPUs.
//
// Five kinds. Code is what may be executed: files, shared libraries among them, and anonymous
// memory that text was moved to. The heap is what the break has. Large blocks of
// malloc and its arenas of other threads are anonymous memory, as is all else that is of no file.
// The others are mapped files and stacks. Plain values and pure functions, but for ReadNumaMaps and
// ReadProcessMemory.
#ifndef HARNESS_NUMA_PROCESS_MEMORY_H_
#define HARNESS_NUMA_PROCESS_MEMORY_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/numa/topology.h"
#include "harness/system/memory_maps.h"

namespace engine_race::harness {

enum class MemoryKind { kCode, kHeap, kAnonymous, kFiles, kStacks };
inline constexpr std::array<MemoryKind, 5> kMemoryKinds = {MemoryKind::kCode, MemoryKind::kHeap,
                                                           MemoryKind::kAnonymous,
                                                           MemoryKind::kFiles, MemoryKind::kStacks};
const char* MemoryKindName(MemoryKind kind);

// Those of different machines can be compared.
struct ProcessMemory {
  struct Kind {
    NodeBytes bytes;
    // None of nothing.
    std::optional<double> local_share;
    double distance = 0;  // see WeightedDistance
  };

  int64_t pid = 0;
  // The command's name.
  std::string name;
  // The CPUs that it may run on, as far as the topology has them, and their nodes; both ascending.
  std::vector<uint32_t> cpus;
  std::vector<uint32_t> cpu_nodes;
  // The nodes whose memory is near to them, or those that the caller named; ascending. A node of
  // CPUs that has no memory of its own has the nearest node that does.
  std::vector<uint32_t> local_nodes;
  // False: it may run on every node that has CPUs.
  bool is_bound = false;
  // In the order of kMemoryKinds, then all of them together.
  std::array<Kind, kMemoryKinds.size() + 1> kinds;
  // Of the code, that on huge pages.
  uint64_t huge_code_bytes = 0;
  // These three are left empty by what reads a report of JSON.
  // The heap, anonymous memory and stacks by the kernel's words for their policies, as "bind:1".
  std::map<std::string, NodeBytes> bytes_by_policy;
  // Mapped files by path.
  std::map<std::string, NodeBytes> bytes_by_file;
  // How many threads may run on the same CPUs, by the kernel's list of these, as "0-3,8".
  std::map<std::string, uint32_t> threads_by_cpus;

  const Kind& Of(MemoryKind kind) const { return kinds[static_cast<size_t>(kind)]; }
  const Kind& All() const { return kinds.back(); }
};

uint64_t SumOf(const NodeBytes& bytes);
// The share that lies on the nodes; nullopt of nothing.
std::optional<double> ShareOn(const NodeBytes& bytes, const std::vector<uint32_t>& nodes);

// The mean distance from a CPU to a byte, each CPU weighing the same; 0 of nothing.
double WeightedDistance(const NodeBytes& bytes, const std::vector<uint32_t>& cpus,
                        const numa::Topology& topology);

// Sorts the memory by kind. The two lists may be of different moments: a mapping that only
// `numa_mappings` has is sorted by its line there alone.
void SortByKind(const std::vector<NumaMapping>& numa_mappings, const std::vector<Mapping>& mappings,
                ProcessMemory* memory);
// Computes the local shares and the distances of sorted memory.
void MeasureKinds(const numa::Topology& topology, ProcessMemory* memory);

// The nodes on which at least one of the CPUs lies, ascending.
std::vector<uint32_t> NodesOfCpus(const std::vector<uint32_t>& cpus,
                                  const numa::Topology& topology);

// The node with memory that is nearest to the nodes together; nullopt when none has any.
std::optional<uint32_t> NearestMemory(const numa::Topology& topology,
                                      const std::vector<uint32_t>& nodes);

// The machine as far as a process may use it, in a container as well. Other CPUs are left out, and
// other nodes have no memory.
numa::Topology AllowedPart(const numa::Topology& topology, const numa::Allowed& allowed);

// Of the file `path`, a numa_maps of /proc. kNotSupported when there is none: the kernel has no
// NUMA. kIOError when it cannot be read or parsed.
Status ReadNumaMaps(const std::string& path, std::vector<NumaMapping>* mappings);

// Of the process in `proc_root`, "/proc". `local_nodes`, unless empty, replaces those that its CPUs
// lie on. kNotFound when there is no such process, kNotSupported when the kernel has no NUMA,
// kIOError when its files cannot be read or parsed.
Status ReadProcessMemory(const std::string& proc_root, int64_t pid, const numa::Topology& topology,
                         const std::vector<uint32_t>& local_nodes, ProcessMemory* memory);

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_PROCESS_MEMORY_H_

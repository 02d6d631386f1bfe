// The machine's NUMA nodes as the kernel describes them: CPUs, memory, distances, and the node of a
// block device. Start here to read about placement; numa/binding.h binds threads and memory.
//
// Everything is read from files below a root that the caller names ("/sys", "/proc"), so that tests
// describe machines of any shape. Plain values and stateless functions: thread-safe.
//
// Node numbers may have gaps. A node may have no CPUs (memory alone) or no memory (CPUs alone). A
// kernel without NUMA, or a container that hides sysfs, is one node 0 with every online CPU.
#ifndef ENGINE_RACE_NUMA_TOPOLOGY_H_
#define ENGINE_RACE_NUMA_TOPOLOGY_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"

namespace engine_race::numa {

inline constexpr char kSysfsRoot[] = "/sys";
inline constexpr char kProcRoot[] = "/proc";

inline constexpr uint32_t kMaxNodeCount = Placement::kMaxNodeCount;
// Distances of the firmware's tables: of a node to itself, and what the kernel assumes of others.
inline constexpr uint32_t kLocalDistance = 10;
inline constexpr uint32_t kRemoteDistance = 20;

struct Node {
  uint32_t id = 0;
  // Online CPUs, ascending.
  std::vector<uint32_t> cpus;
  uint64_t memory_bytes = 0;
  // To each node, in the order of Topology::nodes.
  std::vector<uint32_t> distances;

  bool HasMemory() const { return memory_bytes > 0; }
};

struct Topology {
  // Ascending by id, at least one.
  std::vector<Node> nodes;
  // False: the kernel shows no nodes, and the one here stands for the whole machine.
  bool from_kernel = false;

  // Null when there is no such node.
  const Node* Find(uint32_t id) const;
  // kRemoteDistance when one of the nodes is unknown.
  uint32_t Distance(uint32_t from_id, uint32_t to_id) const;
  std::optional<uint32_t> NodeOfCpu(uint32_t cpu) const;
};

// The CPUs that a thread may use, by cpuset and affinity, and the nodes, by cpuset. CPUs that are
// offline may be among them.
struct Allowed {
  std::vector<uint32_t> cpus;
  std::vector<uint32_t> nodes;
};

// A list as the kernel writes it, "0-3,8,10-11"; blanks around it, and an empty list, are fine.
// False for anything else, and for numbers of `limit` or more. *numbers are ascending and distinct.
[[nodiscard]] bool ParseList(std::string_view text, uint32_t limit, std::vector<uint32_t>* numbers);
// The inverse: "0-3,8". The numbers are ascending and distinct.
std::string FormatList(const std::vector<uint32_t>& numbers);

// kIOError, naming the file, when files are there but cannot be read or parsed.
Status ReadTopology(const std::string& sysfs_root, Topology* topology);

// Of the thread or process whose directory in /proc this is, from its file "status". Where the file
// says nothing, all CPUs and nodes of `topology` are allowed.
Status ReadAllowed(const std::string& task_dir, const Topology& topology, Allowed* allowed);

// The node of a block device, by its number. Nullopt: the kernel does not know it, the device lies
// on several nodes (as RAID may), or `device` is no block device (as of tmpfs).
std::optional<uint32_t> NodeOfDevice(const std::string& sysfs_root, dev_t device);

}  // namespace engine_race::numa

#endif  // ENGINE_RACE_NUMA_TOPOLOGY_H_

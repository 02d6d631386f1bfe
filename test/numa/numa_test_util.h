// Shared by the tests of placement. They ask whether memory can be placed here, and which policy it
// has. They bind stores to a node.
//
// Stateless.
#ifndef TEST_NUMA_NUMA_TEST_UTIL_H_
#define TEST_NUMA_NUMA_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/placement.h"
#include "engine_race/numa/binding.h"
#include "engine_race/numa/topology.h"

namespace engine_race::test {

inline bool HasNodes() {
  numa::Topology topology;
  return numa::ReadTopology(numa::kSysfsRoot, &topology).ok() && topology.from_kernel;
}

// Whether memory can be bound to node 0, and the process shows where its memory lies.
inline bool CanPlace() {
  const std::vector<uint32_t> nodes = {0};
  return HasNodes() && numa::TryPlacement(Placement(Placement::Mode::kBind, nodes)).ok() &&
         ::access("/proc/self/numa_maps", R_OK) == 0;
}

struct Policy {
  int mode = -1;
  unsigned long first_nodes = 0;  // of nodes 0 to 63
  bool operator==(const Policy&) const = default;
};

// Of the pages at an address or, when that is null, of this thread.
inline Policy PolicyOf(const void* address) {
  constexpr unsigned long kMaskBits = Placement::kMaxNodeCount + 1;
  Policy policy;
  std::array<unsigned long, Placement::kMaxNodeCount / (8 * sizeof(unsigned long))> mask = {};
  EXPECT_EQ(::syscall(SYS_get_mempolicy, &policy.mode, mask.data(), kMaskBits, address,
                      address != nullptr ? MPOL_F_ADDR : 0UL),
            0);
  policy.first_nodes = mask[0];
  return policy;
}

// A small store, bound to the node.
inline Options BoundTo(uint32_t node) {
  Options options;
  options.bucket_count = 16;
  options.file_count = 2;
  options.bucket_capacity_records = 65536;
  options.memory_budget_bytes = uint64_t{256} << 20;
  options.io_backend = IoBackend::kPsync;
  options.journal_bytes = kMinJournalBytes;
  options.numa = {NumaMode::kBind, {node}};
  return options;
}

}  // namespace engine_race::test

#endif  // TEST_NUMA_NUMA_TEST_UTIL_H_

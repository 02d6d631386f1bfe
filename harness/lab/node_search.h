// The search of a block's two tree levels: 16 significant words in the root, 8 in each leaf.
//
// Four kernels behind one interface. Two use wide registers: AVX2 and AVX-512. Two do not: a loop
// without branches, and one that stops at the first word above.
//
// The fastest kernel depends on what the search waits for. A kernel that compares all words at once
// needs all of them in the cache. A branch that is predicted right lets the processor fetch the
// next line earlier.
//
// Pure functions, thread-safe.
#ifndef HARNESS_LAB_NODE_SEARCH_H_
#define HARNESS_LAB_NODE_SEARCH_H_

#include <cstdint>

#include "engine_race/base/cpu_features.h"

namespace engine_race::lab {

inline constexpr uint32_t kRootFanout = 16;
inline constexpr uint32_t kLeafFanout = 8;
inline constexpr uint32_t kMaxSections = kRootFanout * kLeafFanout;

// The significant words of the first keys of a block's sections. Leaf `l` has those of the sections
// from `l * kLeafFanout` on. The root has the first word of each leaf. Unused places hold the
// largest word in use, so that no kernel needs to know how many are in use. That includes the first
// place of an unused leaf, and so the root.
struct alignas(64) NodeWords {
  uint64_t root[kRootFanout];
  uint64_t leaves[kRootFanout][kLeafFanout];
};
static_assert(sizeof(NodeWords) == (kRootFanout + kMaxSections) * 8);

// The last of the `section_count` > 0 sections whose first word is at or below `word`; 0 when there
// is none.
using NodeSearchFn = uint32_t (*)(const NodeWords& nodes, uint32_t section_count, uint64_t word);

enum class NodeSearch : uint8_t { kEarlyExit, kBranchless, kAvx2, kAvx512 };

// Null if the CPU does not have the kernel's instructions.
NodeSearchFn NodeSearchKernel(NodeSearch search, const CpuFeatures& cpu = RunningCpuFeatures());
const char* NodeSearchName(NodeSearch search);
// The default kernel. For single lookups whose lines were touched ahead it is as fast as the best,
// within noise. For many lookups at once it is the fastest. kEarlyExit is faster where a lookup
// waits for one line after another.
NodeSearch BestNodeSearch(const CpuFeatures& cpu = RunningCpuFeatures());

namespace internal {
// Defined in files that are compiled for these registers. To be called through NodeSearchKernel.
uint32_t SearchNodesAvx2(const NodeWords& nodes, uint32_t section_count, uint64_t word);
uint32_t SearchNodesAvx512(const NodeWords& nodes, uint32_t section_count, uint64_t word);
}  // namespace internal

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_NODE_SEARCH_H_

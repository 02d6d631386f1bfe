// The search of a block's two tree levels: 16 significant words in the root, 8 in each leaf.
//
// Three kernels behind one interface, and two more that do not use wide registers: a loop without
// branches, and one that stops at the first word above. Which of them is fastest depends on what
// the search waits for: a comparison of all words at once needs all of them there, while a branch
// that is guessed right lets the processor fetch what comes next.
//
// Pure functions, thread-safe.
#ifndef ENGINE_RACE_L1_NODE_SEARCH_H_
#define ENGINE_RACE_L1_NODE_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/cpu_features.h"

namespace engine_race::l1 {

inline constexpr uint32_t kRootFanout = 16;
inline constexpr uint32_t kLeafFanout = 8;
inline constexpr uint32_t kMaxRuns = kRootFanout * kLeafFanout;

// The significant words of the keys that head the runs of a block: leaf l has those of the runs
// from l * kLeafFanout on, the root has each leaf's first. Unused places hold the largest word of
// those used, so that no kernel needs to know how many there are; the first place of a leaf that is
// not used at all, and so the root's, too.
struct alignas(64) NodeWords {
  uint64_t root[kRootFanout];
  uint64_t leaves[kRootFanout][kLeafFanout];
};
static_assert(sizeof(NodeWords) == (kRootFanout + kMaxRuns) * 8);

// The last of the `run_count` > 0 runs whose head's word is at or below `word`; 0 when there is
// none.
using NodeSearchFn = uint32_t (*)(const NodeWords& nodes, uint32_t run_count, uint64_t word);

enum class NodeSearch : uint8_t { kEarlyExit, kBranchless, kAvx2, kAvx512 };

// Null for a CPU that cannot run it.
NodeSearchFn NodeSearchKernel(NodeSearch search, const CpuFeatures& cpu = RunningCpuFeatures());
const char* NodeSearchName(NodeSearch search);
// The default: within the noise of the best for single lookups whose lines were touched ahead, and
// ahead for many at once. Where a lookup waits for one line after the other, as through the cache,
// kEarlyExit is.
NodeSearch BestNodeSearch(const CpuFeatures& cpu = RunningCpuFeatures());

namespace internal {
// Defined where the compiler may use these registers; call them by NodeSearchKernel.
uint32_t SearchNodesAvx2(const NodeWords& nodes, uint32_t run_count, uint64_t word);
uint32_t SearchNodesAvx512(const NodeWords& nodes, uint32_t run_count, uint64_t word);
}  // namespace internal

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_NODE_SEARCH_H_

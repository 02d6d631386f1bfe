#include "harness/lab/node_search.h"

#include <algorithm>

namespace engine_race::lab {

namespace {

// Stops at the first word above. It looks at about half of the words, and the processor goes on
// with its prediction of where it will stop.
uint32_t SearchEarlyExit(const NodeWords& nodes, uint32_t section_count, uint64_t word) {
  uint32_t leaf = 0;
  while (leaf + 1 < kRootFanout && nodes.root[leaf + 1] <= word) ++leaf;
  const uint64_t* words = nodes.leaves[leaf];
  uint32_t place = 0;
  while (place + 1 < kLeafFanout && words[place + 1] <= word) ++place;
  return std::min(leaf * kLeafFanout + place, section_count - 1);
}

uint32_t SearchBranchless(const NodeWords& nodes, uint32_t section_count, uint64_t word) {
  uint32_t leaf = 0;
  for (uint32_t i = 1; i < kRootFanout; ++i) leaf += nodes.root[i] <= word;
  const uint64_t* words = nodes.leaves[leaf];
  uint32_t place = 0;
  for (uint32_t i = 1; i < kLeafFanout; ++i) place += words[i] <= word;
  return std::min(leaf * kLeafFanout + place, section_count - 1);
}

}  // namespace

NodeSearchFn NodeSearchKernel(NodeSearch search, const CpuFeatures& cpu) {
  switch (search) {
    case NodeSearch::kEarlyExit:
      return SearchEarlyExit;
    case NodeSearch::kBranchless:
      return SearchBranchless;
#ifdef __x86_64__
    case NodeSearch::kAvx2:
      return RunsAvx2Kernels(cpu) ? internal::SearchNodesAvx2 : nullptr;
    case NodeSearch::kAvx512:
      return RunsAvx512Kernels(cpu) ? internal::SearchNodesAvx512 : nullptr;
#else
    default:
      break;
#endif
  }
  return nullptr;
}

const char* NodeSearchName(NodeSearch search) {
  constexpr const char* kNames[] = {"early exit", "branchless", "avx2", "avx512"};
  return kNames[static_cast<size_t>(search)];
}

NodeSearch BestNodeSearch(const CpuFeatures& cpu) {
  if (NodeSearchKernel(NodeSearch::kAvx512, cpu) != nullptr) return NodeSearch::kAvx512;
  if (NodeSearchKernel(NodeSearch::kAvx2, cpu) != nullptr) return NodeSearch::kAvx2;
  return NodeSearch::kBranchless;
}

}  // namespace engine_race::lab

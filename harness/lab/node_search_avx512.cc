#ifdef __x86_64__

#include <immintrin.h>

#include "harness/lab/node_search.h"

namespace engine_race::lab::internal {

namespace {

// A bit for each of the eight words from `words` on that is at or below the eight copies in `word`.
inline uint32_t AtOrBelow(const uint64_t* words, __m512i word) {
  return _mm512_cmple_epu64_mask(_mm512_load_si512(words), word);
}

// The place of the last word at or below, since words ascend. 0 if there is none.
inline uint32_t LastOf(uint32_t mask) {
  return static_cast<uint32_t>(__builtin_popcount(mask >> 1));
}

}  // namespace

uint32_t SearchNodesAvx512(const NodeWords& nodes, uint32_t section_count, uint64_t word) {
  const __m512i words = _mm512_set1_epi64(static_cast<int64_t>(word));
  const uint32_t roots = AtOrBelow(nodes.root, words) | (AtOrBelow(nodes.root + 8, words) << 8);
  const uint32_t leaf = LastOf(roots);
  const uint32_t section = leaf * kLeafFanout + LastOf(AtOrBelow(nodes.leaves[leaf], words));
  return section < section_count ? section : section_count - 1;
}

}  // namespace engine_race::lab::internal

#endif  // __x86_64__

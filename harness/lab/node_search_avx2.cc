#ifdef __x86_64__

#include <immintrin.h>

#include "harness/lab/node_search.h"

namespace engine_race::lab::internal {

namespace {

// How many of the four words from `words` on are above `word`. Both have their sign flipped,
// because AVX2 compares signed numbers only.
inline uint32_t CountAbove(const uint64_t* words, __m256i sign, __m256i word) {
  const __m256i four = _mm256_load_si256(reinterpret_cast<const __m256i*>(words));
  const __m256i above = _mm256_cmpgt_epi64(_mm256_xor_si256(four, sign), word);
  return static_cast<uint32_t>(
      __builtin_popcount(static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(above)))));
}

}  // namespace

uint32_t SearchNodesAvx2(const NodeWords& nodes, uint32_t section_count, uint64_t word) {
  const __m256i sign = _mm256_set1_epi64x(static_cast<int64_t>(uint64_t{1} << 63));
  const __m256i turned = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<int64_t>(word)), sign);
  uint32_t above = 0;
  for (uint32_t i = 0; i < kRootFanout; i += 4) above += CountAbove(nodes.root + i, sign, turned);
  const uint32_t leaf = above == kRootFanout ? 0 : kRootFanout - 1 - above;
  const uint64_t* words = nodes.leaves[leaf];
  above = CountAbove(words, sign, turned) + CountAbove(words + 4, sign, turned);
  const uint32_t place = above == kLeafFanout ? 0 : kLeafFanout - 1 - above;
  const uint32_t section = leaf * kLeafFanout + place;
  return section < section_count ? section : section_count - 1;
}

}  // namespace engine_race::lab::internal

#endif  // __x86_64__

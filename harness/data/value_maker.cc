#include "harness/data/value_maker.h"

namespace engine_race::harness {
namespace {

// Two words at a time, in registers that every x86-64 has. Four streams hide the latency of the
// additions. The loops are unrolled: otherwise the streams lie in memory, and a value takes three
// times as long.
using Pair = uint64_t __attribute__((vector_size(16)));
constexpr size_t kStreams = 4;
constexpr size_t kBlockBytes = kStreams * sizeof(Pair);

// The pattern that starts one step below `base`, so that word 1 of the value is `base`.
struct Pattern {
  Pair pair[kStreams];
  Pair stride;
};

Pattern StartPattern(uint64_t base, uint64_t step) {
  Pattern pattern;
  for (size_t i = 0; i < kStreams; ++i) {
    pattern.pair[i] = Pair{base + (2 * i - 1) * step, base + 2 * i * step};
  }
  pattern.stride = Pair{2 * kStreams * step, 2 * kStreams * step};
  return pattern;
}

// Writes the block, and advances the pattern.
inline void FillBlock(Pattern* pattern, char* block) {
#pragma GCC unroll 4  // see kStreams
  for (size_t i = 0; i < kStreams; ++i) {
    std::memcpy(block + i * sizeof(Pair), &pattern->pair[i], sizeof(Pair));
    pattern->pair[i] += pattern->stride;
  }
}

// Adds the differing bits of the block and the pattern to `difference`, and advances the pattern.
inline void CompareBlock(const char* block, Pattern* pattern, Pair* difference) {
#pragma GCC unroll 4  // see kStreams
  for (size_t i = 0; i < kStreams; ++i) {
    Pair found;
    std::memcpy(&found, block + i * sizeof(Pair), sizeof(Pair));
    difference[i] |= found ^ pattern->pair[i];
    pattern->pair[i] += pattern->stride;
  }
}

}  // namespace

void ValueMaker::Fill(uint64_t key, uint64_t version, char* value) const {
  Pattern pattern = StartPattern(Base(key, version), kStep);
  size_t at = 0;
  for (; at + kBlockBytes <= value_bytes_; at += kBlockBytes) FillBlock(&pattern, value + at);
  if (at < value_bytes_) {
    char block[kBlockBytes];
    FillBlock(&pattern, block);
    std::memcpy(value + at, block, value_bytes_ - at);
  }
  const uint64_t first = version ^ Mask(key);
  std::memcpy(value, &first, sizeof(first));
}

bool ValueMaker::CheckAll(uint64_t key, const char* value, uint64_t* version) const {
  *version = Word(value, 0) ^ Mask(key);
  Pattern pattern = StartPattern(Base(key, *version), kStep);
  Pair difference[kStreams] = {};
  size_t at = 0;
  if (value_bytes_ >= kBlockBytes) {
    CompareBlock(value, &pattern, difference);
    // Word 0 is the version, not a word of the pattern.
    difference[0][0] = 0;
    for (at = kBlockBytes; at + kBlockBytes <= value_bytes_; at += kBlockBytes) {
      CompareBlock(value + at, &pattern, difference);
    }
  }
  if (at < value_bytes_) {
    // The bytes behind the value are those of the pattern.
    Pattern ahead = pattern;
    char block[kBlockBytes];
    FillBlock(&ahead, block);
    std::memcpy(block, value + at, value_bytes_ - at);
    CompareBlock(block, &pattern, difference);
    if (at == 0) difference[0][0] = 0;
  }
  for (size_t i = 1; i < kStreams; ++i) difference[0] |= difference[i];
  const bool has_hash = value_bytes_ >= 2 * sizeof(uint64_t);
  return (difference[0][0] | difference[0][1]) == 0 && (has_hash || *version < kMostShortVersions);
}

}  // namespace engine_race::harness

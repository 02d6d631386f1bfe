// The search of one block: ascending keys, most likely not in the cache.
//
// The cache lines that a search waits for, one after another, decide how long it takes. A binary
// search waits for several. This one guesses where an evenly spread key would be, and compares all
// keys of a window around the guess at once. Their lines arrive together. A key outside the window
// is searched for in the rest of the block.
//
// A guess needs two keys that the block's keys lie between. A caller that comes from the level
// above knows them. Other callers use the block's first and last key, which costs one more wait.
//
// Never reads outside the keys, even where they do not ascend. Pure functions, thread-safe.
#ifndef ENGINE_RACE_L1_KEY_SEARCH_H_
#define ENGINE_RACE_L1_KEY_SEARCH_H_

#include <algorithm>
#include <cstdint>

#include "engine_race/base/key_scan.h"
#include "engine_race/base/lower_bound.h"

namespace engine_race::l1 {

// Two standard deviations of a uniform key's place among 255, to both sides.
inline constexpr uint32_t kRecordWindowKeys = 32;
// The first keys of full blocks are spread far more evenly than keys are.
inline constexpr uint32_t kFenceWindowKeys = 12;

// Guesses which of `count` > 0 keys has `word`, if their words are spread evenly from `low` to
// `high`. About right for hashes and random keys. For other keys a wrong guess costs only time.
inline uint32_t GuessRank(uint64_t low, uint64_t high, uint64_t word, uint32_t count) {
  if (word <= low) return 0;
  if (word >= high) return count - 1;
  const double part = static_cast<double>(word - low) / static_cast<double>(high - low);
  return std::min(static_cast<uint32_t>(part * count), count - 1);
}

// The comparison of a window. The portable one has a type so that tests run both.
template <uint32_t kKeyCount>
struct WindowScan {
  size_t operator()(const uint64_t* keys, uint64_t key) const {
    return CountBelow<kKeyCount>(keys, key);
  }
};
template <uint32_t kKeyCount>
struct PortableWindowScan {
  size_t operator()(const uint64_t* keys, uint64_t key) const {
    return CountBelowPortable<kKeyCount>(keys, key);
  }
};

// The keys of a block lie between these two, both included. Only a hint: wrong ones cost time.
struct KeyBounds {
  uint64_t first;
  uint64_t last;
};

// How many of the ascending keys[0, count) are below `key`, looked for around `guess` < count.
template <uint32_t kWindowKeys, typename Scan = WindowScan<kWindowKeys>>
inline uint32_t RankNear(const uint64_t* keys, uint32_t count, uint32_t guess, uint64_t key) {
  if (count <= kWindowKeys) [[unlikely]] {
    return static_cast<uint32_t>(LowerBound(keys, count, key));
  }
  const uint32_t begin =
      std::min(std::max(guess, kWindowKeys / 2) - kWindowKeys / 2, count - kWindowKeys);
  const uint32_t end = begin + kWindowKeys;
  const auto below = static_cast<uint32_t>(Scan()(keys + begin, key));
  // The comparison orders signed numbers, and takes the one before the key: all of them must lie on
  // one side of 2^63.
  const uint64_t side = keys[begin];
  const uint64_t sides = (side ^ keys[end - 1]) | (side ^ key) | (side ^ (key - 1));
  if (sides >> 63 != 0) [[unlikely]] {
    return static_cast<uint32_t>(LowerBound(keys, count, key));
  }
  if (below == 0 && begin > 0) [[unlikely]] {
    return static_cast<uint32_t>(LowerBound(keys, begin, key));
  }
  if (below == kWindowKeys && end < count) [[unlikely]] {
    return end + static_cast<uint32_t>(LowerBound(keys + end, count - end, key));
  }
  return begin + below;
}

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_KEY_SEARCH_H_

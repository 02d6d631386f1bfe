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

// Guesses which of `count` > 0 keys is `key`, if they are spread evenly between the bounds. About
// right for hashes and random keys. For other keys a wrong guess costs only time. A key outside the
// bounds gets any guess.
inline uint32_t GuessRank(const KeyBounds& bounds, uint64_t key, uint32_t count) {
  const uint64_t width = bounds.last - bounds.first;
  const uint64_t distance = std::min(key - bounds.first, width);
  // Halved, they fit signed numbers, which take one instruction to convert.
  const float part = static_cast<float>(static_cast<int64_t>(distance >> 1)) /
                     static_cast<float>(static_cast<int64_t>(width >> 1 | 1));
  return std::min(static_cast<uint32_t>(static_cast<int32_t>(part * static_cast<float>(count))),
                  count - 1);
}

// Where the window around `guess` begins, among more keys than it has.
template <uint32_t kWindowKeys>
inline uint32_t WindowBegin(uint32_t guess, uint32_t count) {
  return std::min(std::max(guess, kWindowKeys / 2) - kWindowKeys / 2, count - kWindowKeys);
}

// The position of `key` in the ascending keys[0, count), looked for around `guess` < count. `count`
// if it is not there.
template <uint32_t kWindowKeys, typename Scan = WindowScan<kWindowKeys>>
[[gnu::always_inline]] inline uint32_t FindNear(const uint64_t* keys, uint32_t count,
                                                uint32_t guess, uint64_t key) {
  if (count > kWindowKeys) [[likely]] {
    const uint32_t begin = WindowBegin<kWindowKeys>(guess, count);
    const uint32_t at = begin + static_cast<uint32_t>(Scan()(keys + begin, key));
    // No key is there twice. So this is its place, whatever the window has told.
    if (at < count && keys[at] == key) [[likely]] {
      return at;
    }
  }
  const auto at = static_cast<uint32_t>(LowerBound(keys, count, key));
  return at < count && keys[at] == key ? at : count;
}

// How many of the ascending keys[0, count) are at most `key`, looked for around `guess` < count.
template <uint32_t kWindowKeys, typename Scan = WindowScan<kWindowKeys>>
[[gnu::always_inline]] inline uint32_t UpperRankNear(const uint64_t* keys, uint32_t count,
                                                     uint32_t guess, uint64_t key) {
  if (count > kWindowKeys) [[likely]] {
    const uint32_t begin = WindowBegin<kWindowKeys>(guess, count);
    const uint32_t rank = begin + static_cast<uint32_t>(Scan()(keys + begin, key + 1));
    // The key lies between these two, whatever the window has told.
    if (rank > 0 && keys[rank - 1] <= key && (rank == count || key < keys[rank])) [[likely]] {
      return rank;
    }
  }
  return static_cast<uint32_t>(UpperRank(keys, count, key));
}

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_KEY_SEARCH_H_

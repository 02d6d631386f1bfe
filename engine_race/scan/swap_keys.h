// Turns keys from numbers into the bytes that users see, or back.
//
// Stateless; thread-safe.
#ifndef ENGINE_RACE_SCAN_SWAP_KEYS_H_
#define ENGINE_RACE_SCAN_SWAP_KEYS_H_

#include <cstdint>
#include <cstring>

namespace engine_race {

// The keys that SwapKeys turns, without a branch.
inline constexpr uint32_t kSwappedAtOnce = 8;

inline void SwapTwoKeys(uint64_t* keys) {
  using Bytes = char __attribute__((vector_size(16)));
  Bytes two;
  std::memcpy(&two, keys, sizeof(two));
  two = __builtin_shufflevector(two, two, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
  std::memcpy(keys, &two, sizeof(two));
}

inline void SwapKeys(uint64_t* keys) {
  static_assert(kSwappedAtOnce == 8);
  SwapTwoKeys(keys);
  SwapTwoKeys(keys + 2);
  SwapTwoKeys(keys + 4);
  SwapTwoKeys(keys + 6);
}

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SWAP_KEYS_H_

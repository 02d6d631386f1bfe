// Keys as words: the part of a key that tells it from its neighbours in a block.
//
// All keys of a block begin with the same bytes, which the block stores once. The next eight bytes
// of a key, as a number, are its significant word. Registers compare numbers, and in nearly every
// comparison the words decide. The bytes after the word are the suffix, which is looked at only
// when words are equal. A key that ends within its word is filled up with zeros.
#ifndef HARNESS_LAB_KEY_WORDS_H_
#define HARNESS_LAB_KEY_WORDS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "harness/lab/engine_names.h"

namespace engine_race::lab {

inline constexpr uint32_t kWordBytes = 8;

// Eight bytes as a number whose order is the order of the bytes.
inline uint64_t LoadWord(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  static_assert(std::endian::native == std::endian::little);
  return __builtin_bswap64(word);
}

// The significant word of `rest_bytes` > 0 bytes at `rest`. Always reads eight bytes there.
inline uint64_t WordOf(const char* rest, uint32_t rest_bytes) {
  const uint64_t word = LoadWord(rest);
  if (rest_bytes >= kWordBytes) [[likely]] {
    return word;
  }
  const uint32_t unused_bits = 8 * (kWordBytes - rest_bytes);
  return word >> unused_bits << unused_bits;
}

// The significant word of a key of `key_bytes` >= 8 after its first `prefix_bytes`. Reads nothing
// behind the key.
inline uint64_t WordAfter(const char* key, uint32_t key_bytes, uint32_t prefix_bytes) {
  const uint32_t rest_bytes = key_bytes - prefix_bytes;
  if (rest_bytes >= kWordBytes) [[likely]] {
    return LoadWord(key + prefix_bytes);
  }
  return LoadWord(key + key_bytes - kWordBytes) << (8 * (kWordBytes - rest_bytes));
}

inline uint32_t CommonPrefix(const char* a, const char* b, uint32_t size) {
  return static_cast<uint32_t>(std::mismatch(a, a + size, b).first - a);
}

// Loads a cache line that will be needed soon; nothing waits for it.
inline void TouchLine(const char* line) { Touch(static_cast<uint8_t>(*line)); }

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_KEY_WORDS_H_

// Keys as words: what of a key tells it from its neighbours in a block.
//
// All keys of a block begin with the same bytes, which the block keeps once. The eight bytes after
// these, as a number, are a key's significant word: in nearly every comparison they decide, and
// numbers are what registers compare. The bytes after them, the suffix, are looked at only when
// the words are equal. A key that ends before its word does is filled up with zeros.
//
// Pure functions.
#ifndef ENGINE_RACE_L1_KEY_WORDS_H_
#define ENGINE_RACE_L1_KEY_WORDS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace engine_race::l1 {

inline constexpr uint32_t kWordBytes = 8;

// Eight bytes as the number that orders as they do.
inline uint64_t LoadWord(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  static_assert(std::endian::native == std::endian::little);
  return __builtin_bswap64(word);
}

// The significant word of the `rest_bytes` > 0 bytes at `rest`, which may be fewer than eight.
// Reads eight bytes whatever their number.
inline uint64_t WordOf(const char* rest, uint32_t rest_bytes) {
  const uint64_t word = LoadWord(rest);
  if (rest_bytes >= kWordBytes) [[likely]] {
    return word;
  }
  const uint32_t unused_bits = 8 * (kWordBytes - rest_bytes);
  return word >> unused_bits << unused_bits;
}

// The same of a key of `key_bytes`, eight or more, after its first `prefix_bytes`; reads nothing
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

// About which of `count` > 0 keys whose words are spread evenly from `low` to `high` has `word`:
// right for keys that are hashes or random, and of no harm for others, where nothing but speed
// depends on it.
inline uint32_t GuessRank(uint64_t low, uint64_t high, uint64_t word, uint32_t count) {
  if (word <= low) return 0;
  if (word >= high) return count - 1;
  const double part = static_cast<double>(word - low) / static_cast<double>(high - low);
  return std::min(static_cast<uint32_t>(part * count), count - 1);
}

// Loads what will be needed soon, a word or the line at `line`, and waits for nothing. A prefetch
// instruction would not do: where the page has to be looked up first, processors drop it.
inline void Touch(uint64_t loaded) { asm volatile("" : : "r"(loaded)); }
inline void TouchLine(const char* line) { Touch(static_cast<uint8_t>(*line)); }

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_KEY_WORDS_H_

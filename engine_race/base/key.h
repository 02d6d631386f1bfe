// The 8-byte key as a number: big-endian, so that byte order and number order agree.
#ifndef ENGINE_RACE_BASE_KEY_H_
#define ENGINE_RACE_BASE_KEY_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "engine_race/base/key_range.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

static_assert(std::endian::native == std::endian::little, "the codec and the format assume it");

inline uint64_t DecodeKey(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return __builtin_bswap64(word);
}

inline void EncodeKey(uint64_t key, char* bytes) {
  const uint64_t word = __builtin_bswap64(key);
  std::memcpy(bytes, &word, sizeof(word));
}

// The bytes of a key.
class KeyBytes {
 public:
  explicit KeyBytes(uint64_t key) { EncodeKey(key, bytes_); }
  std::string_view view() const { return {bytes_, sizeof(bytes_)}; }

 private:
  char bytes_[kKeyBytes];
};

inline bool IsKey(std::string_view key) { return key.size() == kKeyBytes && key.data() != nullptr; }

// kInvalidArgument when `key` has not kKeyBytes bytes, without words where there is no memory for
// them.
Status CheckKey(std::string_view key) noexcept;
// CheckKey, and kInvalidArgument for a key that is not among `keys`.
Status CheckKeyOf(const KeyRange& keys, std::string_view key) noexcept;

// "16384-32767", as the option key_range is written everywhere.
std::string ToString(const KeyRange& keys);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_KEY_H_

// Whether memory holds zeros alone.
//
// Stateless and thread-safe.
#ifndef ENGINE_RACE_BASE_IS_ZERO_H_
#define ENGINE_RACE_BASE_IS_ZERO_H_

#include <cstdint>
#include <cstring>

namespace engine_race {

inline bool IsZero(const char* data, uint64_t size_bytes) {
  return size_bytes == 0 || (*data == 0 && std::memcmp(data, data + 1, size_bytes - 1) == 0);
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_IS_ZERO_H_

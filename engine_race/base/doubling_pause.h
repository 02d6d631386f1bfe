// The pause between attempts that fail, which doubles.
//
// Thread safety: a stateless function.
#ifndef ENGINE_RACE_BASE_DOUBLING_PAUSE_H_
#define ENGINE_RACE_BASE_DOUBLING_PAUSE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace engine_race {

// The longest pause is the first one, doubled this many times.
inline constexpr uint32_t kMaxPauseDoublings = 10;

// The pause after `failure_count` failures in a row. The first `free_count` have none, and the next
// one has `first`. It doubles with each further one, kMaxPauseDoublings times.
inline std::chrono::milliseconds DoublingPause(std::chrono::milliseconds first,
                                               uint32_t failure_count, uint32_t free_count = 0) {
  if (failure_count <= free_count) return std::chrono::milliseconds(0);
  return first * (uint64_t{1} << std::min(failure_count - free_count - 1, kMaxPauseDoublings));
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_DOUBLING_PAUSE_H_

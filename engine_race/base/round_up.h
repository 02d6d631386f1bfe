// Sizes in whole pages, blocks and the like.
#ifndef ENGINE_RACE_BASE_ROUND_UP_H_
#define ENGINE_RACE_BASE_ROUND_UP_H_

#include <cstdint>

namespace engine_race {

// The least multiple of `step` that is not below `value`. `step` is not 0; no overflow is caught.
constexpr uint64_t RoundUp(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_ROUND_UP_H_

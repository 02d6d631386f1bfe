// Bounds as callers give them, checked and turned into numbers.
//
// Thread safety: a value type and stateless functions.
#ifndef ENGINE_RACE_SCAN_KEY_RANGE_H_
#define ENGINE_RACE_SCAN_KEY_RANGE_H_

#include <cstdint>
#include <string_view>

#include "engine_race/base/status.h"

namespace engine_race {

// The keys from `first` to `last`, both included; none when first > last.
struct KeyRange {
  uint64_t first = 0;
  uint64_t last = ~uint64_t{0};

  bool empty() const { return first > last; }
};

// [lower, upper), where an empty bound is open on its side. kInvalidArgument for bounds of another
// size.
Status ParseBounds(std::string_view lower, std::string_view upper, KeyRange* range);

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_KEY_RANGE_H_

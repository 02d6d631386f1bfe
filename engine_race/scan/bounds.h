// Bounds as callers give them, checked, clipped and turned into numbers.
//
// Thread safety: stateless functions.
#ifndef ENGINE_RACE_SCAN_BOUNDS_H_
#define ENGINE_RACE_SCAN_BOUNDS_H_

#include <string_view>

#include "engine_race/base/key_range.h"
#include "engine_race/base/status.h"

namespace engine_race {

// The keys of [lower, upper) that are among `keys`; {1, 0} when there are none. An empty bound is
// open on its side. kInvalidArgument for bounds of another size.
Status ParseBounds(std::string_view lower, std::string_view upper, const KeyRange& keys,
                   KeyRange* range);

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_BOUNDS_H_

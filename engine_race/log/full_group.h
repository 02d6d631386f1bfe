// A full group of one lane of a bucket, and the place that it is staged in.
//
// Plain values.
#ifndef ENGINE_RACE_LOG_FULL_GROUP_H_
#define ENGINE_RACE_LOG_FULL_GROUP_H_

#include <cstdint>

namespace engine_race {

enum class LaneKind { kValues, kKeys };

struct FullGroup {
  LaneKind kind = LaneKind::kValues;
  uint64_t group = 0;
  uint32_t place = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_FULL_GROUP_H_

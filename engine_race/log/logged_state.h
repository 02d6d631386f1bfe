// The counts of a bucket whose records are all in its logs.
//
// A stateless function. Invariant of its result: logged watermarks <= synced watermark == record
// count.
#ifndef ENGINE_RACE_LOG_LOGGED_STATE_H_
#define ENGINE_RACE_LOG_LOGGED_STATE_H_

#include <cstdint>

#include "engine_race/log/bucket_state.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

// The first `record_count` records of a bucket are in its logs and count as synced. The logged
// watermarks are at the last whole groups. The unfinished groups go on in place 0 of staging.
inline BucketState LoggedState(const Geometry& geometry, uint64_t record_count,
                               uint32_t page_cache_id) {
  BucketState state;
  state.record_count = record_count;
  state.synced_watermark = record_count;
  state.logged_value_watermark = record_count - record_count % geometry.values_per_group();
  state.logged_key_watermark = record_count - record_count % geometry.keys_per_group();
  state.page_cache_id = page_cache_id;
  return state;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOGGED_STATE_H_

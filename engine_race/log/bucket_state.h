// The state of a bucket, as its line of counts and its rows tell it, and the codec of that line.
//
// Plain data and pure functions.
#ifndef ENGINE_RACE_LOG_BUCKET_STATE_H_
#define ENGINE_RACE_LOG_BUCKET_STATE_H_

#include <algorithm>
#include <cstdint>

#include "engine_race/log/format.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/lane.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

// The words of a bucket's counts, decoded.
struct BucketState {
  uint64_t record_count = 0;
  uint64_t logged_value_watermark = 0;
  uint64_t logged_key_watermark = 0;
  uint32_t value_places = 0;
  uint32_t key_places = 0;
  uint64_t synced_watermark = 0;
  uint32_t page_cache_id = 0;
  // At this record count reclaim is to clean the bucket; 0: not known.
  uint64_t clean_at = 0;
  bool damaged = false;
  // Tells what the bucket's slots hold.
  SlotTable table;

  // All records of the bucket, `count`, are in its logs and count as synced. The logged watermarks
  // are at the last whole groups. The unfinished groups go on in place 0 of staging.
  void SetLogged(const Geometry& geometry, uint64_t count);

  // Records below these are in the log of that kind, and are read from there alone.
  uint64_t LoggedKeyCount() const { return std::max(logged_key_watermark, synced_watermark); }
  uint64_t LoggedValueCount() const { return std::max(logged_value_watermark, synced_watermark); }
};

// The words of a state, with their checks under `seed_id`.
format::BucketCounts EncodeCounts(uint64_t seed_id, uint32_t bucket, const BucketState& state);

// The state that a line of counts says in a bucket with those rows. It has no table.
BucketState DecodeLine(uint64_t seed_id, uint32_t bucket, const Geometry& geometry,
                       const format::BucketCounts& line, const SlotTable& table);
// The state that a line of counts says, together with the bucket's rows. It is damaged if a word
// fails its check or the counts contradict one another, the geometry or the rows.
BucketState DecodeCounts(uint64_t seed_id, uint32_t bucket, const Geometry& geometry,
                         const format::BucketCounts& line, SlotTable table);

// Begins the lanes of a bucket with the groups that are staged. False: its places words name no
// places for them.
bool InitLanes(const Geometry& geometry, const BucketState& state, Lane* values, Lane* keys);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BUCKET_STATE_H_

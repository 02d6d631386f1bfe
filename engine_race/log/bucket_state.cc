#include "engine_race/log/bucket_state.h"

#include <utility>

#include "engine_race/log/entry_codec.h"

namespace engine_race {
namespace {

// The count with these low bits in a bucket whose newest run ends with `run_end`. Records that are
// not synced all have slots, so a synced watermark is less than a capacity below that. After a
// power loss counts may be newer than the rows, by records that are not synced either.
uint64_t WholeCount(uint64_t low_bits, uint64_t run_end) {
  constexpr uint64_t kMaxAhead = kMaxBucketRecords;
  static_assert(2 * kMaxAhead <= format::kCountMask + 1);
  const uint64_t behind = (run_end + kMaxAhead - low_bits) & format::kCountMask;
  const uint64_t bound = run_end + kMaxAhead;
  return bound >= behind ? bound - behind : low_bits;
}

// The count of which the word has the low bits; a count that was reached long ago is
// `record_count`. Nothing depends on this word: one that fails its check says nothing.
uint64_t CleanAtOf(uint64_t seed_id, uint32_t bucket, uint64_t word, uint64_t record_count) {
  constexpr auto kKind = format::WordKind::kCleanAt;
  uint64_t low_bits = 0;
  if (!DecodeWord(seed_id, bucket, kKind, word, PayloadBits(kKind), &low_bits)) return 0;
  const uint64_t ahead = (low_bits - record_count) & format::kCountMask;
  return record_count + (ahead <= format::kCountMask / 2 ? ahead : 0);
}

}  // namespace

void BucketState::SetLogged(const Geometry& geometry, uint64_t count) {
  record_count = synced_watermark = count;
  logged_value_watermark = count - count % geometry.values_per_group();
  logged_key_watermark = count - count % geometry.keys_per_group();
  value_places = key_places = 0;
}

format::BucketCounts EncodeCounts(uint64_t seed_id, uint32_t bucket, const BucketState& state) {
  const auto word_of = [&](format::WordKind kind, uint64_t payload) {
    const uint32_t bits = PayloadBits(kind);
    return EncodeWord(seed_id, bucket, kind, payload & ((uint64_t{1} << bits) - 1), bits);
  };
  format::BucketCounts line{};
  line.records = word_of(format::WordKind::kRecords, state.record_count);
  line.logged_values = word_of(format::WordKind::kLoggedValues, state.logged_value_watermark);
  line.logged_keys = word_of(format::WordKind::kLoggedKeys, state.logged_key_watermark);
  line.value_places = word_of(format::WordKind::kValuePlaces, state.value_places);
  line.key_places = word_of(format::WordKind::kKeyPlaces, state.key_places);
  line.synced = word_of(format::WordKind::kSynced, state.synced_watermark);
  line.page_cache = word_of(format::WordKind::kPageCache, state.page_cache_id);
  if (state.clean_at != 0) line.clean_at = word_of(format::WordKind::kCleanAt, state.clean_at);
  return line;
}

BucketState DecodeLine(uint64_t seed_id, uint32_t bucket, const Geometry& geometry,
                       const format::BucketCounts& line, const SlotTable& table) {
  bool sound = true;
  const auto payload_of = [&](format::WordKind kind, uint64_t word) {
    uint64_t payload = 0;
    sound = DecodeWord(seed_id, bucket, kind, word, PayloadBits(kind), &payload) && sound;
    return payload;
  };
  BucketState state;
  state.record_count = payload_of(format::WordKind::kRecords, line.records);
  state.logged_value_watermark = payload_of(format::WordKind::kLoggedValues, line.logged_values);
  state.logged_key_watermark = payload_of(format::WordKind::kLoggedKeys, line.logged_keys);
  state.value_places =
      static_cast<uint32_t>(payload_of(format::WordKind::kValuePlaces, line.value_places));
  state.key_places =
      static_cast<uint32_t>(payload_of(format::WordKind::kKeyPlaces, line.key_places));
  state.synced_watermark = payload_of(format::WordKind::kSynced, line.synced);
  state.page_cache_id =
      static_cast<uint32_t>(payload_of(format::WordKind::kPageCache, line.page_cache));
  if (table.has_rows()) {
    for (uint64_t* const count : {&state.record_count, &state.logged_value_watermark,
                                  &state.logged_key_watermark, &state.synced_watermark}) {
      *count = WholeCount(*count, table.RunEnd());
    }
  }
  state.clean_at = CleanAtOf(seed_id, bucket, line.clean_at, state.record_count);
  // Counts of records that no row holds are in doubt, but a Sync flushes the rows before it counts.
  const bool is_held = table.has_rows() ? state.synced_watermark <= table.RunEnd()
                                        : state.record_count <= geometry.bucket_capacity_records;
  // The lanes check that the staged groups fit into the places.
  const auto fits = [&state](uint64_t watermark, uint64_t group) {
    return watermark % group == 0 && watermark <= state.record_count;
  };
  state.damaged = !sound || state.synced_watermark > state.record_count || !is_held ||
                  !fits(state.logged_value_watermark, geometry.values_per_group()) ||
                  !fits(state.logged_key_watermark, geometry.keys_per_group());
  return state;
}

BucketState DecodeCounts(uint64_t seed_id, uint32_t bucket, const Geometry& geometry,
                         const format::BucketCounts& line, SlotTable table) {
  BucketState state = DecodeLine(seed_id, bucket, geometry, line, table);
  state.table = std::move(table);
  return state;
}

bool InitLanes(const Geometry& geometry, const BucketState& state, Lane* values, Lane* keys) {
  return values->Init(geometry.values_per_group(), format::kValuePlaces,
                      state.logged_value_watermark, state.record_count, state.value_places) &&
         keys->Init(geometry.keys_per_group(), format::kKeyPlaces, state.logged_key_watermark,
                    state.record_count, state.key_places);
}

}  // namespace engine_race

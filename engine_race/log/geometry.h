// The shape of a store, as its manifest has it, and the arithmetic on it.
//
// A value type. Only geometries that CheckGeometry has passed are used.
#ifndef ENGINE_RACE_LOG_GEOMETRY_H_
#define ENGINE_RACE_LOG_GEOMETRY_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/base/options.h"
#include "engine_race/base/value_layout.h"
#include "engine_race/log/format.h"
#include "engine_race/log/full_group.h"
#include "engine_race/log/key_division.h"
#include "engine_race/log/segment_format.h"

namespace engine_race {

struct Geometry {
  ValueLayout layout;
  uint32_t bucket_count = 0;
  uint32_t file_count = 0;
  uint64_t bucket_capacity_records = 0;
  // Of a group of values: whole blocks.
  uint32_t value_group_bytes = 0;
  uint32_t key_group_bytes = 0;
  // Of the value files. No paths: they lie in the store's own directory.
  uint32_t path_count = 0;
  // Of the keys over the buckets: made anew by Divide when bucket_count changes.
  KeyDivision division;

  void Divide(const KeyRange& keys) { division = KeyDivision(keys, bucket_count); }
  uint32_t bucket_bits() const { return static_cast<uint32_t>(std::countr_zero(bucket_count)); }

  // See KeyDivision.
  const KeyRange& keys() const { return division.keys(); }
  uint32_t BucketOf(uint64_t key) const {
    const uint32_t bucket = division.BucketOf(key);
    ENGINE_RACE_ASSERT(bucket < bucket_count);
    return bucket;
  }
  bool IsIn(uint32_t bucket, uint64_t key) const { return division.IsIn(bucket, key); }
  KeyRange KeysOf(uint32_t bucket) const { return division.KeysOf(bucket); }
  uint64_t FirstKeyOf(uint32_t bucket) const { return division.FirstKeyOf(bucket); }
  uint64_t LastKeyOf(uint32_t bucket) const { return division.LastKeyOf(bucket); }

  // Value files of each path that is a directory; without paths, of the store's.
  uint32_t files_per_directory() const {
    return std::max(file_count / std::max(path_count, 1U), 1U);
  }
  uint32_t value_bytes() const { return layout.value_bytes(); }
  uint32_t slot_bytes() const { return layout.slot_bytes(); }
  // Of a segment, which is the place of a row: of its values, and of its entries.
  uint64_t segment_value_bytes() const { return layout.BlockBytesFor(row_records()); }
  uint64_t segment_key_bytes() const { return row_records() * uint64_t{format::kKeyEntryBytes}; }
  // The last block of the largest groups may be padded.
  uint32_t values_per_group() const {
    return std::min(value_group_bytes / slot_bytes(), kMaxGroupRecords);
  }
  uint32_t keys_per_group() const {
    return key_group_bytes / static_cast<uint32_t>(sizeof(format::KeyEntry));
  }
  uint32_t group_records(LaneKind kind) const {
    return kind == LaneKind::kValues ? values_per_group() : keys_per_group();
  }
  uint32_t group_bytes(LaneKind kind) const {
    return kind == LaneKind::kValues ? value_group_bytes : key_group_bytes;
  }
  // The bytes of a record in a group.
  uint32_t record_bytes(LaneKind kind) const {
    return kind == LaneKind::kValues ? slot_bytes() : format::kKeyEntryBytes;
  }

  // Records whose values are read or written together: of so many bytes, or one.
  uint64_t RecordsIn(uint64_t bytes) const {
    constexpr uint64_t kMostRecords = 8192;
    return std::clamp<uint64_t>(bytes / slot_bytes(), 1, kMostRecords);
  }

  // Whether a slot has a whole block of its own, which a hole gives back.
  bool slots_have_blocks() const { return layout.is_aligned() || slot_bytes() >= 2 * kIoAlignment; }

  // Slots are handed out by the row.
  uint32_t row_records() const { return std::max(values_per_group(), keys_per_group()); }
  // Of the slots of a row in a value file.
  uint64_t row_bytes() const { return uint64_t{row_records()} * slot_bytes(); }
  uint64_t rows_per_bucket() const {
    return std::max<uint64_t>(bucket_capacity_records / row_records(), 1);
  }
  // The file of rows begins with a head for each bucket, in whole pages. The rows follow in the
  // order of their segments' entries.
  uint64_t RowHeadOffset(uint32_t bucket) const { return bucket * sizeof(format::RowsHead); }
  uint64_t RowsOffset(uint64_t segment_number) const {
    return (RowHeadOffset(bucket_count) + 4095) / 4096 * 4096 +
           segment_number * sizeof(format::RowImages);
  }

  // Staging: all buckets' base places first, so that neighbours lie together, then the extra ones.
  uint64_t base_value_bytes_per_bucket() const {
    return uint64_t{value_group_bytes} * format::kBasePlaces;
  }
  uint64_t staging_base_values_bytes() const {
    return base_value_bytes_per_bucket() * bucket_count;
  }
  uint64_t staging_values_bytes() const {
    return uint64_t{value_group_bytes} * format::kValuePlaces * bucket_count;
  }
  uint64_t ValuePlaceOffset(uint32_t bucket, uint32_t place) const {
    constexpr uint32_t kExtraPlaces = format::kValuePlaces - format::kBasePlaces;
    ENGINE_RACE_ASSERT(bucket < bucket_count && place < format::kValuePlaces);
    if (place < format::kBasePlaces) {
      return (uint64_t{bucket} * format::kBasePlaces + place) * value_group_bytes;
    }
    return staging_base_values_bytes() +
           (uint64_t{bucket} * kExtraPlaces + place - format::kBasePlaces) * value_group_bytes;
  }
  uint64_t staged_key_bytes_per_bucket() const {
    return uint64_t{key_group_bytes} * format::kKeyPlaces;
  }
  uint64_t staging_keys_bytes() const { return staged_key_bytes_per_bucket() * bucket_count; }
  // The base places of all buckets, and their places for keys.
  uint64_t usual_staging_bytes() const {
    return staging_base_values_bytes() + staging_keys_bytes();
  }
  uint64_t KeyPlaceOffset(uint32_t bucket, uint32_t place) const {
    ENGINE_RACE_ASSERT(bucket < bucket_count && place < format::kKeyPlaces);
    return (uint64_t{bucket} * format::kKeyPlaces + place) * key_group_bytes;
  }
  uint64_t PlaceOffset(LaneKind kind, uint32_t bucket, uint32_t place) const {
    return kind == LaneKind::kValues ? ValuePlaceOffset(bucket, place)
                                     : KeyPlaceOffset(bucket, place);
  }
  uint64_t staging_counts_bytes() const {
    return (sizeof(format::BucketCounts) * bucket_count + 4095) / 4096 * 4096;
  }
};

// Buckets with values of this size, at most. Staging and the first segment of each take space.
inline uint32_t MostBuckets(uint32_t value_bytes) {
  constexpr uint32_t kOneValueEachBytes = 16 * 1024 * 1024;
  if (value_bytes <= kOneValueEachBytes / 1024) return kMaxBucketCount;
  return std::max(std::bit_floor(kOneValueEachBytes / value_bytes), 16U);
}

// The geometry that `options` ask for.
inline Geometry GeometryFrom(const Options& options) {
  Geometry geometry;
  if (options.value_bytes != 0) geometry.layout = ValueLayout(options.value_bytes);
  geometry.bucket_count = std::min(options.bucket_count, MostBuckets(geometry.value_bytes()));
  geometry.file_count = std::min(options.file_count, geometry.bucket_count);
  geometry.bucket_capacity_records = options.bucket_capacity_records;
  geometry.value_group_bytes = static_cast<uint32_t>(geometry.layout.BlockBytesFor(
      geometry.layout.GroupRecords(options.value_group_bytes, kMaxGroupRecords)));
  geometry.key_group_bytes = options.key_group_bytes;
  geometry.path_count = static_cast<uint32_t>(options.paths.size());
  geometry.Divide(options.key_range.value_or(KeyRange()));
  return geometry;
}

// kNotSupported for a geometry that this build cannot serve.
inline Status CheckGeometry(const Geometry& geometry) {
  Options options;
  options.bucket_count = geometry.bucket_count;
  options.file_count = geometry.file_count;
  options.bucket_capacity_records = geometry.bucket_capacity_records;
  options.key_group_bytes = geometry.key_group_bytes;
  const ValueLayout& layout = geometry.layout;
  if (geometry.bucket_count > MostBuckets(layout.value_bytes())) {
    return Status::NotSupported("geometry: " + std::to_string(geometry.bucket_count) +
                                " buckets with values of " + std::to_string(layout.value_bytes()) +
                                " bytes");
  }
  const uint32_t group_records = geometry.values_per_group();
  if (!std::has_single_bit(group_records) ||
      layout.GroupRecords(kMinGroupBytes, kMaxGroupRecords) > group_records ||
      layout.GroupRecords(kMaxValueGroupBytes, kMaxGroupRecords) < group_records ||
      layout.BlockBytesFor(group_records) != geometry.value_group_bytes) {
    return Status::NotSupported("geometry: groups of " +
                                std::to_string(geometry.value_group_bytes) +
                                " bytes with values of " + std::to_string(layout.value_bytes()));
  }
  if (geometry.bucket_capacity_records < group_records) {
    return Status::NotSupported("geometry: buckets of less than a group of values");
  }
  if (geometry.path_count > kMaxPathCount) return Status::NotSupported("geometry: too many paths");
  if (const Status status = ValidateOptions(options); !status.ok()) {
    return Status::NotSupported("geometry: " + status.message());
  }
  return Status::Ok();
}

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_GEOMETRY_H_

// The format of segments: neighbouring slots of a bucket each, and the table that says where they
// lie. docs/format.md says it in words.
//
// Constants and plain data only; the code over them is in segment_table.h.
#ifndef ENGINE_RACE_LOG_SEGMENT_FORMAT_H_
#define ENGINE_RACE_LOG_SEGMENT_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/options.h"
#include "engine_race/log/format.h"

namespace engine_race::format {

// A segment has room for the values of one row of slots, in a value file or on a device: see
// Geometry. At the same place of a key file it has room for their entries.
// Places of a file, at most: 1 PiB of values.
inline constexpr uint64_t kMaxFilePlaces = uint64_t{1} << 31;
inline constexpr uint64_t kMaxSegmentsPerBucket = kMaxBucketRecords / kPageEntries;

// The table: one entry for each place of a segment. Pages of it are of the key files in turn. The
// places of a key file are numbered in the order of the file.
inline constexpr char kSegmentTableName[] = "manifest_segments";
inline constexpr uint32_t kTablePageSegments = 256;
inline constexpr uint32_t kNoBucket = 0xffffffff;
// Indexes of entries of kNoBucket: the place may hold a segment whose entry was lost, or its bucket
// has given it back.
inline constexpr uint32_t kSetAside = 0;
inline constexpr uint32_t kGivenBack = 1;
// 16 aligned bytes, so that no disk tears one. All zero: the place was never given to a bucket.
struct SegmentEntry {
  uint32_t bucket;  // or kNoBucket
  // Which row of the bucket, from 0.
  uint32_t index;
  // Of both, the seed id and the entry's number.
  uint64_t check;
};
static_assert(sizeof(SegmentEntry) == 16);
static_assert(kTablePageSegments * sizeof(SegmentEntry) == kIoAlignment);

// Device: a header of 4 KiB, then zeros up to 1 MiB, then the places of segments.
inline constexpr uint64_t kDeviceMagic = 0x4543495645444552;  // "REDEVICE" as bytes
inline constexpr uint32_t kDeviceHeaderBytes = 4096;
inline constexpr uint64_t kDeviceDataOffset = uint64_t{1} << 20;
// 1 had extents of other sizes, in builds before the first release.
inline constexpr uint32_t kDeviceVersion = 2;

struct DeviceHeader {
  uint64_t magic;
  uint32_t format_version;
  uint32_t path_index;
  uint32_t path_count;
  uint32_t segment_count;
  uint64_t segment_bytes;  // of values
  uint64_t store_id;
  uint64_t reserved[2];  // zero
  // Hash64 of all bytes before it, seed kDeviceMagic.
  uint64_t checksum;
};
static_assert(sizeof(DeviceHeader) == 64);
static_assert(offsetof(DeviceHeader, checksum) == 56);
static_assert(sizeof(DeviceHeader) <= kDeviceHeaderBytes);

}  // namespace engine_race::format

#endif  // ENGINE_RACE_LOG_SEGMENT_FORMAT_H_

// The format of raw block devices that hold values. A device begins with a header. A table in the
// store's directory maps the extents of buckets to those of the device. docs/devices.md says it in
// words.
//
// Constants and plain data only; the codecs are in device_header.h and extents.h.
#ifndef ENGINE_RACE_LOG_DEVICE_FORMAT_H_
#define ENGINE_RACE_LOG_DEVICE_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/options.h"

namespace engine_race::format {

// Device: a header of 4 KiB, then zeros up to 1 MiB, then extents of equal size. So the extents are
// aligned as partitions are.
inline constexpr uint64_t kDeviceMagic = 0x4543495645444552;  // "REDEVICE" as bytes
inline constexpr uint32_t kDeviceHeaderBytes = 4096;
inline constexpr uint64_t kDeviceDataOffset = uint64_t{1} << 20;
inline constexpr uint64_t kMaxExtentBytes = uint64_t{64} << 20;
// Extents for each bucket that a new store aims at. With fewer, a bucket may find no free extent
// while other buckets have room in theirs.
inline constexpr uint32_t kExtentsPerBucket = 4;

struct DeviceHeader {
  uint64_t magic;
  uint32_t format_version;
  uint32_t path_index;
  uint32_t path_count;
  uint32_t extent_count;
  uint64_t extent_bytes;
  uint64_t store_id;
  uint64_t reserved[2];  // zero
  // Hash64 of all bytes before it, seed kDeviceMagic.
  uint64_t checksum;
};
static_assert(sizeof(DeviceHeader) == 64);
static_assert(offsetof(DeviceHeader, checksum) == 56);
static_assert(sizeof(DeviceHeader) <= kDeviceHeaderBytes);
inline constexpr uint32_t kDeviceVersion = 1;

// Extent table, one file for each path that is a device. It begins with a copy of the device's
// header. The next 4 KiB say how many entries are synced. Then it has one entry for each extent of
// the device, in order.
inline constexpr char kExtentTablePrefix[] = "manifest_extents_";
inline constexpr uint64_t kSyncedMarkOffset = kDeviceHeaderBytes;
inline constexpr uint64_t kExtentEntriesOffset = 2 * uint64_t{kDeviceHeaderBytes};

// 16 aligned bytes, so that no disk tears one. All zero: not given out.
struct ExtentEntry {
  uint32_t bucket;
  uint32_t logical_extent;
  // Of both, the store's id, the path's index and the extent's number.
  uint64_t check;
};
static_assert(sizeof(ExtentEntry) == 16);
static_assert(kExtentEntriesOffset % sizeof(ExtentEntry) == 0);

// The entries below `count` were on the device when it was written.
struct SyncedMark {
  uint64_t count;
  uint64_t check;
};
static_assert(sizeof(SyncedMark) == sizeof(ExtentEntry));

// How an open table keeps one entry in a word: bucket, logical extent, physical extent plus one.
inline constexpr uint32_t kBucketBits = 16;
inline constexpr uint32_t kLogicalExtentBits = 22;
inline constexpr uint32_t kPhysicalExtentBits = 26;
static_assert(kBucketBits + kLogicalExtentBits + kPhysicalExtentBits == 64);
static_assert(kMaxBucketCount == 1u << kBucketBits);
static_assert(kMaxBucketRecords * kValueBytes / kMinStripeUnitBytes == 1u << kLogicalExtentBits);
// One is less than the word's bits can say, so that "plus one" fits too.
inline constexpr uint64_t kMaxExtentCount = (uint64_t{1} << kPhysicalExtentBits) - 2;

}  // namespace engine_race::format

#endif  // ENGINE_RACE_LOG_DEVICE_FORMAT_H_

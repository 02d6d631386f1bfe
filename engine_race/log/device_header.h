// The header of a raw block device: whose it is and how it is cut up, and who may take it over.
//
// Stateless functions over an open device.
#ifndef ENGINE_RACE_LOG_DEVICE_HEADER_H_
#define ENGINE_RACE_LOG_DEVICE_HEADER_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/io/block_device.h"
#include "engine_race/io/file.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

// A device's part in its store. A value type.
struct DeviceIdentity {
  uint64_t store_id = 0;
  uint32_t path_index = 0;
  uint32_t path_count = 0;
  uint32_t extent_count = 0;
  uint64_t extent_bytes = 0;

  // Where on the device an extent begins.
  uint64_t OffsetOf(uint64_t physical_extent) const;
  bool operator==(const DeviceIdentity&) const = default;
};

// Cuts a device of `device_bytes` up for a store of this geometry: extents of a power of two, from
// a stripe unit to 64 MiB, as large as leaves four for each bucket, if any size does, and no larger
// than what a bucket may ever have there. kInvalidArgument when not even one extent fits.
Status PlanExtents(uint64_t device_bytes, const Geometry& geometry, DeviceIdentity* identity);

// Refuses, unless `overwrite`, a device that holds anything but zeros or the header of this store,
// which an interrupted creation may have left; *foreign when it is another store's. The device
// stays as it was.
Status CheckFree(const io::BlockDevice& device, bool overwrite, uint64_t store_id, bool* foreign);

// Zeros what identifies the device to others, its first and last MiB, writes the header and
// flushes it.
Status WriteDeviceHeader(const io::BlockDevice& device, const DeviceIdentity& identity);

// kNotFound where there is no header; kCorruption for a damaged one.
Status ReadDeviceHeader(const io::File& file, DeviceIdentity* identity);

// Reads the header and compares it: whether this is the device of that path. Says what it is
// instead otherwise, with the code `wrong` when it is no device of this store, or that of another
// path.
Status CheckDeviceHeader(const io::BlockDevice& device, const DeviceIdentity& expected, Code wrong);

// The same block in a file, where the extent table keeps its copy.
Status WriteHeaderBlock(const io::File& file, const DeviceIdentity& identity);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DEVICE_HEADER_H_

// The header of a raw block device says whose it is and how it is divided. Also says whether a
// store may take a device over.
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

// Divides a device of `device_bytes` into extents for a store of this geometry. Their size is the
// largest power of two that leaves four extents for each bucket. It is at least a stripe unit, also
// where that leaves fewer. It is at most 64 MiB, and at most what a bucket may ever have there,
// rounded up, unless a stripe unit is more. kInvalidArgument when not even one extent fits.
Status PlanExtents(uint64_t device_bytes, const Geometry& geometry, DeviceIdentity* identity);

// Refuses a device that holds anything but zeros or the header of this store, which an interrupted
// creation may have left. With `overwrite` it accepts any content. *foreign when the device is
// another store's. The device stays as it was.
Status CheckFree(const io::BlockDevice& device, bool overwrite, uint64_t store_id, bool* foreign);

// Zeros what identifies the device to others, its first and last MiB, writes the header and
// flushes it.
Status WriteDeviceHeader(const io::BlockDevice& device, const DeviceIdentity& identity);

// kNotFound where there is no header; kCorruption for a damaged one.
Status ReadDeviceHeader(const io::File& file, DeviceIdentity* identity);

// Reads the header and checks that this is the device of that path. Otherwise the error says what
// the device is instead. Its code is `wrong` for a device of no store, of another store, or of
// another path.
Status CheckDeviceHeader(const io::BlockDevice& device, const DeviceIdentity& expected, Code wrong);

// Writes the header to a file: the extent table begins with a copy.
Status WriteHeaderBlock(const io::File& file, const DeviceIdentity& identity);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DEVICE_HEADER_H_

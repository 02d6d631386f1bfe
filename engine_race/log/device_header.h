// The header of a raw block device, which says whose the device is, and whether a store may take a
// device over.
//
// Stateless functions over an open device.
#ifndef ENGINE_RACE_LOG_DEVICE_HEADER_H_
#define ENGINE_RACE_LOG_DEVICE_HEADER_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/io/block_device.h"
#include "engine_race/io/file.h"
#include "engine_race/log/segment_format.h"

namespace engine_race {

// *segment_count: how many segments a device of that size has places for. kInvalidArgument when it
// has none.
Status PlanSegments(uint64_t device_bytes, uint64_t segment_bytes, uint32_t* segment_count);

// Refuses a device that holds anything but zeros or the header of this store, which an interrupted
// creation may have left. With `overwrite` it accepts any content. *foreign when the device is
// another store's. The device stays as it was.
Status CheckFree(const io::BlockDevice& device, bool overwrite, uint64_t store_id, bool* foreign);

// Zeros what identifies the device to others, its first and last MiB. Then writes the header, with
// its magic, version and checksum filled in, and flushes it.
Status WriteDeviceHeader(const io::BlockDevice& device, format::DeviceHeader header);

// Checks that this is the device of that path, however many segments `expected` has.
// *segment_count is that of the header. The error says what the device is instead. Its code is
// `wrong` for a device of no store, of another store, or of another path.
Status CheckDeviceHeader(const io::BlockDevice& device, const format::DeviceHeader& expected,
                         Code wrong, uint32_t* segment_count);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DEVICE_HEADER_H_

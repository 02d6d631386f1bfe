// A raw block device that a store keeps values on, opened past the page cache.
//
// Owner of its descriptor; movable. A device that is opened for writing is held exclusively. Nobody
// can mount it meanwhile, put it into an array, or open it a second time as a BlockDevice. A device
// that is opened for reading is shared with other readers. Opening changes nothing on the device.
#ifndef ENGINE_RACE_IO_BLOCK_DEVICE_H_
#define ENGINE_RACE_IO_BLOCK_DEVICE_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"

namespace engine_race::io {

struct BlockDevice {
  // Whether `path` names a block device; false for everything else, and for nothing.
  static Status Is(const std::string& path, bool* is_device);

  // kInvalidArgument when it is no block device, or one whose sectors are larger than a value.
  // kIOError when it is mounted or in use; *in_use, when given, tells that from other failures.
  static Status Open(const std::string& path, bool read_only, BlockDevice* device,
                     bool* in_use = nullptr);

  // Whether any byte of its first or last MiB is not zero: file systems, partition tables, md, LVM
  // and swap all leave their signatures there.
  Status HoldsSomething(bool* holds) const;

  File file;
  uint64_t size_bytes = 0;
  uint32_t sector_bytes = 0;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_BLOCK_DEVICE_H_

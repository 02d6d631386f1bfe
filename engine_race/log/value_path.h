// A directory or raw device that a store keeps values in.
//
// Owner of its descriptors and its lock; movable. For one thread at a time.
#ifndef ENGINE_RACE_LOG_VALUE_PATH_H_
#define ENGINE_RACE_LOG_VALUE_PATH_H_

#include <cstdint>
#include <string>

#include "engine_race/base/sys.h"
#include "engine_race/io/block_device.h"
#include "engine_race/log/directory_lock.h"

namespace engine_race {

struct ValuePath {
  bool is_device() const { return segment_count != 0; }

  // Absolute; empty for the store's own directory.
  std::string name;
  // Invalid where there is none.
  UniqueFd directory;
  // Of the directory, unless it is the store's own, which is locked already.
  DirectoryLock lock;
  // Of a path that is a raw device, until SlotFiles::Init takes its file.
  io::BlockDevice device;
  // Places on a raw device. 0: the path is a directory.
  uint32_t segment_count = 0;
  // The first of its files.
  uint32_t first_file = 0;
  uint32_t file_count = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_VALUE_PATH_H_

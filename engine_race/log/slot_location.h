// Where a slot's entry or value lies.
//
// A value type. The file is SlotFiles', and outlives it.
#ifndef ENGINE_RACE_LOG_SLOT_LOCATION_H_
#define ENGINE_RACE_LOG_SLOT_LOCATION_H_

#include <cstdint>

#include "engine_race/io/file.h"
#include "engine_race/io/read_queue.h"

namespace engine_race {

struct SlotLocation {
  // Past the end of every file, so that a read there brings nothing.
  static constexpr uint64_t kNowhere = uint64_t{1} << 62;
  // Whether its segment has a place.
  bool found() const { return offset != kNowhere; }
  // A request to read so many bytes from there. If the segment has no place it reads past the end.
  io::ReadRequest RequestFor(uint64_t size_bytes, void* buffer, uint64_t tag = 0) const {
    return {file->fd(), static_cast<uint32_t>(size_bytes), offset, buffer, tag};
  }

  const io::File* file = nullptr;
  uint64_t offset = kNowhere;
  // Of `file`, as SlotFiles::value_file and key_file have them.
  uint32_t file_number = 0;
  // How many slots, this one first, lie in one piece from here on: as many as were asked for, or
  // fewer.
  uint64_t slot_count = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SLOT_LOCATION_H_

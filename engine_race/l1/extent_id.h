// Names an extent of the index on disk.
//
// A value.
#ifndef ENGINE_RACE_L1_EXTENT_ID_H_
#define ENGINE_RACE_L1_EXTENT_ID_H_

#include <cstdint>

namespace engine_race::l1 {

// No two extents of a store have the same generation. A place is used again by later extents.
struct ExtentId {
  uint64_t generation = 0;  // 0: no extent
  uint32_t place = 0;

  bool valid() const { return generation != 0; }
  bool operator==(const ExtentId&) const = default;
};

// Places are below this: 8 TiB of index files, half a trillion keys. It bounds the memory that a
// hostile root can make a reader of it allocate.
inline constexpr uint32_t kMaxExtentPlaces = 1u << 22;

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EXTENT_ID_H_

// The manifest: which store this is and what shape it has. Written once, atomically, when
// everything it stands for is on the device.
#ifndef ENGINE_RACE_LOG_MANIFEST_H_
#define ENGINE_RACE_LOG_MANIFEST_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

struct StoreIdentity {
  Geometry geometry;
  uint64_t store_id = 0;
};

// kNotFound when there is none; kCorruption for a truncated, damaged or foreign one; kNotSupported
// for another format version or a geometry that cannot be used.
Status ReadManifest(int dir_fd, StoreIdentity* identity);

// Writes a new file, syncs it, renames it into place and syncs the directory.
Status WriteManifest(int dir_fd, const StoreIdentity& identity);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_MANIFEST_H_

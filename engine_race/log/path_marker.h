// The marker in each directory that a striped store keeps values in: which path of which store it
// is.
//
// Stateless functions over an open directory.
#ifndef ENGINE_RACE_LOG_PATH_MARKER_H_
#define ENGINE_RACE_LOG_PATH_MARKER_H_

#include <sys/types.h>

#include <cstddef>

#include "engine_race/base/status.h"
#include "engine_race/log/format.h"
#include "engine_race/log/manifest.h"

namespace engine_race {

// kNotFound when there is none; kCorruption for a damaged one.
Status ReadPathMarker(int dir_fd, format::PathMarker* marker);

// Marks a directory as path `index` of the store, durably and atomically.
Status WritePathMarker(int dir_fd, const StoreIdentity& identity, size_t index, mode_t file_mode);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_PATH_MARKER_H_

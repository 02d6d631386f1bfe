// The directories and raw devices that a striped store keeps its values in: found, checked and
// locked.
//
// A directory has a marker, and a device a header, that says which path of which store it is. So a
// missing, swapped or foreign path is found before a value is read.
//
// Thread safety: stateless functions, for one thread at a time. The caller owns the paths and, with
// them, their locks.
#ifndef ENGINE_RACE_LOG_VALUE_PATHS_H_
#define ENGINE_RACE_LOG_VALUE_PATHS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/value_path.h"

namespace engine_race {

// The names, absolute and without "." and double or trailing slashes. A ".." stays: where it leads
// behind a symlink only the file system knows.
Status AbsoluteNames(const std::vector<std::string>& given, std::vector<std::string>* names);

// "path 1, /data: "
std::string PathPrefix(size_t index, const std::string& name);

// Makes the directories of identity.paths where they are missing and locks all paths for a new
// store. kInvalidArgument for a name that cannot be a path and for a path given twice.
// kInvalidArgument, and *foreign, for a path with the marker of another store. kInvalidArgument for
// a device that holds anything, unless options.overwrite_devices. kIOError for a path or device
// that an open store has.
Status MakeValuePaths(int store_dir_fd, const StoreIdentity& identity, const Options& options,
                      std::vector<ValuePath>* paths, bool* foreign);

// Marks the paths as those of the store, durably.
Status WritePathMarkers(const StoreIdentity& identity, mode_t file_mode,
                        const std::vector<ValuePath>& paths);

// How the paths of a store are opened: alone, beside other readers, or beside a writer as well.
enum class PathAccess { kWriting, kReading, kFollowing };

// Locks the paths of a store that exists: those in `given`, or those that the manifest names when
// `given` is empty. kFollowing locks none of them. kInvalidArgument for a given path that is not
// the store's own. kCorruption when a path that the manifest names is not there. kNotSupported for
// a device with kFollowing. *moved when the names have changed; identity->paths has them.
Status OpenValuePaths(int store_dir_fd, const std::vector<std::string>& given, PathAccess access,
                      mode_t file_mode, StoreIdentity* identity, std::vector<ValuePath>* paths,
                      bool* moved);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_VALUE_PATHS_H_

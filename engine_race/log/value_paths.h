// The directories that a striped store keeps its values in: found, checked and locked.
//
// Each holds a marker that says which path of which store it is, so that a missing, swapped or
// foreign one is told from the right one before a value is read.
#ifndef ENGINE_RACE_LOG_VALUE_PATHS_H_
#define ENGINE_RACE_LOG_VALUE_PATHS_H_

#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/value_files.h"

namespace engine_race {

// The names, absolute.
Status AbsoluteNames(const std::vector<std::string>& given, std::vector<std::string>* names);

// "path 1, /data: "
std::string PathPrefix(size_t index, const std::string& name);

// Makes the directories of identity.paths where they are missing and locks them for a new store.
// kInvalidArgument for what cannot be a path, for one given twice, and for one that holds the marker
// of another store; *foreign then.
Status MakeValuePaths(int store_dir_fd, const StoreIdentity& identity,
                      std::vector<ValuePath>* paths, bool* foreign);

// Marks the paths as those of the store, durably.
Status WritePathMarkers(const StoreIdentity& identity, const std::vector<ValuePath>& paths);

// Locks the paths of a store that exists: those in `given`, or those that the manifest names when
// it is empty. What is given and is not the store's own is kInvalidArgument; kCorruption when what
// the manifest names is not there. *moved when the names have changed; identity->paths has them.
Status OpenValuePaths(int store_dir_fd, const std::vector<std::string>& given,
                      StoreIdentity* identity, std::vector<ValuePath>* paths, bool* moved);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_VALUE_PATHS_H_

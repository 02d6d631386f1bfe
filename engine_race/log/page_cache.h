// Which page cache a store's files are in.
//
// Staged records belong to the kernel and not yet to the device. They are there for as long as the
// machine runs and the file systems stay mounted. The id tells whether both have been so.
//
// Thread-safe.
#ifndef ENGINE_RACE_LOG_PAGE_CACHE_H_
#define ENGINE_RACE_LOG_PAGE_CACHE_H_

#include <cstdint>

#include "engine_race/log/store_files.h"

namespace engine_race {

// Hashes the machine's boot id and the mounts that the store's directory and the first value file
// of each path lie on. 0 when the system does not tell one of them: no counts are trusted then.
uint32_t PageCacheId(const StoreFiles& files);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_PAGE_CACHE_H_

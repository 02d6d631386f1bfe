// Makes a new store where there is none.
//
// Thread safety: stateless functions; one thread creates a store, in a directory that it has
// locked. Invariant: the manifest is written last, so a creation that was interrupted leaves no
// store.
#ifndef ENGINE_RACE_LOG_STORE_CREATION_H_
#define ENGINE_RACE_LOG_STORE_CREATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Descriptors that an opening has once the directory is locked: the directory and the lock file.
// While the store is made the removal of the lock file has one.
inline constexpr uint64_t kOpenWhenLocked = 2;
inline constexpr uint64_t kOpenWhenMade = 3;

// Writes the counts of all buckets, whose records are all in the logs. An opening in which
// PageCacheId is `page_cache_id` trusts the counts. Any other checks the records; none has the id
// 0.
Status WriteNewCounts(const StoreFiles& files, const std::vector<uint64_t>& record_counts,
                      uint32_t page_cache_id);

// Makes a store in the directory files->directory and opens it. The directory's name is `dir`; it
// is locked and has no manifest. `fill` writes the store's first content. Files that an interrupted
// creation left are replaced. kNotFound unless the options ask for a new store; kCorruption when
// there are records; kInvalidArgument for a path of another store. Other files in a directory are
// kInvalidArgument, too, unless the options allow them.
Status CreateStore(const Options& options, const std::string& dir, Publishing publishing,
                   const FillFn& fill, StoreFiles* files);

// kInvalidArgument, naming one of them, when the open directory `dir` holds names that `expected`
// does not take. The lock file is expected, and so is the lost+found that mkfs makes.
Status RefuseOtherFiles(int dir_fd, const std::string& dir,
                        FunctionRef<bool(const std::string& name)> expected);

// Removes what an interrupted creation of kFromUnfinished has left, durably. Does nothing where
// there was none.
Status RemoveUnfinished(int dir_fd);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_STORE_CREATION_H_

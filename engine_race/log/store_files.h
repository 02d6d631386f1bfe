// The files of one store: made once, found again, locked while open.
//
// Owner of every descriptor of the store. Immutable after OpenStoreFiles, but for two changes. The
// first freed slots add `rows`, and each backup is noted in `identity`.
#ifndef ENGINE_RACE_LOG_STORE_FILES_H_
#define ENGINE_RACE_LOG_STORE_FILES_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "engine_race/log/directory_lock.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/slot_files.h"

namespace engine_race {

struct StoreFiles {
  UniqueFd directory;
  DirectoryLock lock;
  StoreIdentity identity;
  SlotFiles slots;
  io::File counts;
  io::File staged_keys;
  io::File staged_values;
  // Invalid until reclaim first frees slots of the store.
  io::File rows;
};

// Where the values of a store without paths lie.
std::vector<ValuePath> OwnDirectory();

// Locks `dir` and opens the store there, or makes a new one where nothing is. A directory with
// records but no manifest is kCorruption, never a fresh store. The manifest is written anew where
// options.paths are the store's own that have moved. A refused opening leaves nothing behind but
// directories that were made for it. The counts of a new store enter the page cache as `memory`
// says.
Status OpenStoreFiles(const Options& options, const std::string& dir, StoreFiles* files,
                      const Placement& memory = {});

// Writes what a new store is to hold. May change the ids in files->identity.
using FillFn = std::function<Status(StoreFiles* files)>;

// kFromUnfinished: while the store is made its manifest is there under another name, and openings
// refuse the directory. Another call replaces what an interrupted one has left, and a failed call
// removes all that it has made, but for the directory. Not for a store with paths.
enum class Publishing { kUsual, kFromUnfinished };

// Makes a new store in `dir`, which must be missing or empty (kInvalidArgument), and locks it
// meanwhile. `fill` writes the content: records into the logs, and a line of counts for each
// bucket. All of that is synced before the manifest makes it a store. A failed or interrupted
// creation leaves no store.
Status MakeFilledStore(const Options& options, const std::string& dir, Publishing publishing,
                       const FillFn& fill);

// Calls `visit` with a file for each directory or device that logs lie in. Each file is opened as
// the logs are and has at least 4 KiB. They are the markers of paths or whole devices, and then the
// manifest. For callers that want to know which back end can read there.
Status VisitProbeFiles(const StoreFiles& files,
                       const std::function<Status(const io::File& file)>& visit);

// The block devices that the values lie on, one for each path.
Status DevicesOf(const StoreFiles& files, std::vector<dev_t>* devices);

// Locks `dir` and opens the store there, to recover it before it is opened for reading only. The
// manifest stays as it is, wherever options.paths lie. kNotFound when there is no store.
Status OpenStoreFilesToRecover(const std::string& dir, StoreFiles* files, const Options& options);

// Locks `dir` against writers and opens what is there for reading alone, changing nothing.
// kNotFound when there is no store. Of the options, `paths` may say where its paths have moved to,
// `key_range` what its keys must be, and `log` is told of damage.
Status OpenStoreFilesToRead(const std::string& dir, StoreFiles* files, const Options& options = {});

// OpenStoreFilesToRead without any lock, beside a writer. The files may be in the middle of a
// recovery. *before is the sight of files->lock before they were opened. kBusy: a writer opens the
// store. kNotSupported for a store with a raw device.
Status OpenStoreFilesToFollow(const std::string& dir, StoreFiles* files, const Options& options,
                              DirectoryLock::Sight* before);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_STORE_FILES_H_

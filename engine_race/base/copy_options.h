// Checkpoints and backups: what a caller may choose, how it follows and ends them, and what it is
// told in the end.
#ifndef ENGINE_RACE_BASE_COPY_OPTIONS_H_
#define ENGINE_RACE_BASE_COPY_OPTIONS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/progress.h"

namespace engine_race {

struct CheckpointOptions {
  // Share blocks with the store where its file system can. Otherwise, and where it cannot, all live
  // records are copied.
  bool reflink = true;
  // May be empty. Not called where blocks are shared.
  ProgressFn on_progress;
};

struct BackupOptions {
  // The directory of an earlier backup of this store: only what changed since is backed up. Empty:
  // everything.
  std::string since;
  ProgressFn on_progress;  // may be empty
};

struct BackupReport {
  // Live records at the moment of the backup.
  uint64_t record_count = 0;
  // Those whose values this backup holds itself.
  uint64_t value_count = 0;
  // Backups that a restore needs, this one included: 1 for a full one.
  uint32_t chain_length = 0;
  // Of the files of this backup.
  uint64_t size_bytes = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_COPY_OPTIONS_H_

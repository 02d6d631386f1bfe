// Clones the logs of an open store into a new one that shares their blocks, by reflink.
//
// Thread safety: one call at a time for a clone, beside appends to the source. The caller owns the
// files of both.
#ifndef ENGINE_RACE_COPIES_LOG_CLONE_H_
#define ENGINE_RACE_COPIES_LOG_CLONE_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Whether the logs of `source` can be cloned into the empty files of `clone`. Both must lie in one
// file system that can do that, and have one geometry without paths. It tries with one file, which
// CloneLogs clones again: the caller flushes the source in between, and only where that helps.
Status CanCloneLogs(const StoreFiles& source, const StoreFiles& clone, bool* can);

// Gives `clone` the first record_counts[bucket] records of each bucket, in the rows that `tables`
// say, and counts that say so. Counts and tables are those of one cut. Its records are in the logs
// of the source already, and stay where they are throughout the call. All other entries are made
// unreadable in the clone. The clone takes on the seed of the source and keeps its own id.
Status CloneLogs(const StoreFiles& source, const std::vector<uint64_t>& record_counts,
                 std::vector<SlotTable> tables, mode_t file_mode, StoreFiles* clone);

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_LOG_CLONE_H_

// Opens the index from its extents: what the root on disk covers is not read from the key logs.
//
// A bucket is restored if its coverage holds: the last record that the extents stand for is still
// the same in the key log. The records behind it are read from the log and added to the deltas.
// Every other bucket is left to the build, and the log callback hears how many there are.
//
// Thread safety: one call, before any other thread knows the index.
#ifndef ENGINE_RACE_INDEX_INDEX_RESTORE_H_
#define ENGINE_RACE_INDEX_INDEX_RESTORE_H_

#include "engine_race/base/status.h"
#include "engine_race/index/build.h"
#include "engine_race/index/paging.h"
#include "engine_race/l1/index_root.h"

namespace engine_race {

// Restores what can be restored and marks it in the context. *root is the root on disk, without the
// buckets that could not be restored. A failure means that the whole build must fail.
Status RestoreIndex(BuildContext* context, Paging* paging, l1::IndexRoot* root);

// How many records of a bucket may have come after the ones that its extents cover. A bucket with
// more is built from its key log.
uint64_t MaxTail(uint64_t covered_count);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_RESTORE_H_

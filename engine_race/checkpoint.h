// Makes a store of its own from one moment of an open store, while writers and readers go on.
//
// By reflink where the file system can: the logs share their blocks, and each store writes to
// blocks of its own afterwards. Else the live records are copied, in order of key.
//
// Thread safety: every call from any thread, beside any other call of the store.
#ifndef ENGINE_RACE_CHECKPOINT_H_
#define ENGINE_RACE_CHECKPOINT_H_

#include <string>

#include "engine_race/base/copy_options.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/readers.h"

namespace engine_race {

// See Store::Checkpoint. `readers` are made only where records must be copied.
Status MakeCheckpoint(const Options& options, BucketLog* log, Readers* readers,
                      const std::string& dir, const CheckpointOptions& how);

}  // namespace engine_race

#endif  // ENGINE_RACE_CHECKPOINT_H_

// Writes a backup of an open store, whole or of what changed since an earlier one, while writers
// and readers go on.
//
// Thread safety: every call from any thread, beside any other call of the store.
#ifndef ENGINE_RACE_BACKUP_H_
#define ENGINE_RACE_BACKUP_H_

#include <string>

#include "engine_race/base/copy_options.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/readers.h"

namespace engine_race {

// See Store::Backup. `report` may be null.
Status MakeBackup(const Options& options, BucketLog* log, Readers* readers, const std::string& dir,
                  const BackupOptions& how, BackupReport* report);

}  // namespace engine_race

#endif  // ENGINE_RACE_BACKUP_H_

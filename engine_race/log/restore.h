// Makes a store of a backup and its parents, or only reads what that would read.
//
// Thread safety: stateless; each call runs threads of its own.
#ifndef ENGINE_RACE_LOG_RESTORE_H_
#define ENGINE_RACE_LOG_RESTORE_H_

#include <string>

#include "engine_race/base/copy_options.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

// See Store::Restore and Store::VerifyBackup. `report` may be null.
Status RestoreStore(const Options& options, const std::string& backup, const std::string& to,
                    BackupReport* report, const ProgressFn& on_progress);
Status VerifyBackupFiles(const std::string& backup, BackupReport* report,
                         const ProgressFn& on_progress);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_RESTORE_H_

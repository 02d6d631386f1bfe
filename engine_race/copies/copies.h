// Stores and backups that are made of a store, and the verification of one.
//
// Start reading this room here. Checkpoints and backups are made of one moment of an open store,
// beside its writers and readers. A checkpoint is a store. A backup is a file of pieces that may go
// on from an earlier backup, and a restore makes a store of it. Copies are made of a store that
// nobody has open, and such a store can be verified.
//
// Every store that is made here is a store of its own. It has another id, so its paths and devices
// are never taken for those of its source. Its manifest is written last, so an interrupted one is
// no store. All its records lie in its logs and count as synced; nothing is staged and there is no
// journal. Its counts name no page cache. So its first opening trusts only the synced watermarks.
//
// - view_walk.h visits what a view shows, for checkpoints and backups; verify.h the records of a
//   closed store, for copies.
// - copied_store.h fills the logs of a new store, log_clone.h shares those of its source by
// reflink.
// - backup_format.h, backup_manifest.h, backup_piece.h and backup_chain.h are the files of backups.
//
// Thread safety: calls of an open store from any thread, beside its other calls. One call at a time
// for a closed store. Each call runs threads of its own and owns nothing after it returns.
#ifndef ENGINE_RACE_COPIES_COPIES_H_
#define ENGINE_RACE_COPIES_COPIES_H_

#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/copy_options.h"
#include "engine_race/base/function_ref.h"
#include "engine_race/base/key_range.h"
#include "engine_race/base/options.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/verify_report.h"

namespace engine_race {

class BucketLog;
class Index;

// Makes the store's index where it is missing, and gives it out. Every bucket of it has been tried.
using EnsureIndexFn = FunctionRef<Status(Index** index)>;

// See Store::Checkpoint. Shares blocks by reflink where the file system can. Else copies the live
// records, in order of key; only then is the index asked for.
Status MakeCheckpoint(const Options& options, BucketLog* log, EnsureIndexFn ensure_index,
                      const std::string& dir, const CheckpointOptions& how);

// See Store::Backup. `report` may be null.
Status MakeBackup(const Options& options, BucketLog* log, EnsureIndexFn ensure_index,
                  const std::string& dir, const BackupOptions& how, BackupReport* report);

// See Store::Restore and Store::VerifyBackup. `report` may be null.
Status RestoreStore(const Options& options, const std::string& backup, const std::string& to,
                    BackupReport* report, const ProgressFn& on_progress);
Status VerifyBackupFiles(const std::string& backup, BackupReport* report,
                         const ProgressFn& on_progress);

// Copies the store in `from`, which nobody may have open, into `to`, which must be missing or
// empty. Each record is verified on its way. Where the values of the copy lie is for options.paths
// to say; the rest of the geometry is the source's. Reports as VerifyStore does: the copy holds
// what the next opening of the source would find. kCorruption when something is bad: there is no
// copy then. The copy is durable.
Status CopyStore(const Options& options, const std::string& from, const std::string& to,
                 VerifyReport* report, const BadRecordFn& on_bad,
                 const ProgressFn& on_progress = {});

// Verifies the store in `dir`, which nobody may have open. Reads its logs from end to end, and
// compares the extents of its index with them. Changes nothing. Extents that cannot be used are
// only counted, because the next opening builds their buckets from the key logs. Extents that match
// all their checks and yet say something else than the logs are bad.
//
// Several threads call `on_bad`, one at a time and not beside `on_progress`. Both may be empty. Ok,
// kCorruption when something is bad, or why the store could not be read. For the options see
// OpenStoreFilesToRead; values may have any size.
Status VerifyStore(const std::string& dir, VerifyReport* report, const BadRecordFn& on_bad,
                   const Options& options = {}, const ProgressFn& on_progress = {});

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_COPIES_H_

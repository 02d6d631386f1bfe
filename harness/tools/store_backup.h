// The backups of bin/store: made of a closed store, verified, and restored.
//
// Each call prints what it has done, and shows a line of its progress on a terminal. It returns the
// exit code: 0, 1 for a damaged backup, else 2.
//
// Thread safety: one call at a time for a store or a backup.
#ifndef HARNESS_TOOLS_STORE_BACKUP_H_
#define HARNESS_TOOLS_STORE_BACKUP_H_

#include <string>

namespace engine_race::harness {

// Backs the store in `dir` up into `to`: what changed since the backup in `since`, or everything
// where that is empty. Verifies the backup then, where that is asked for.
int RunBackup(const std::string& dir, const std::string& to, const std::string& since, bool verify);

// Reads all that a restore of the backup would read.
int RunVerifyBackup(const std::string& backup);

// Makes a store in `to` of the backup and its parents.
int RunRestore(const std::string& backup, const std::string& to);

// The compaction of bin/store: gives back the space of a store that no process has open.
//
// Thread safety: one call at a time for a store.

// Opens the store in `dir`, gives the space of overwritten and deleted records back, and prints how
// much that was. Returns the exit code: 0, 1 for a damaged store, else 2.
int RunCompact(const std::string& dir);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_BACKUP_H_

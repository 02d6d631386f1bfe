// The manifest of a backup says which backup this is, of which moment of which store, and from
// which earlier backup it goes on. It is written last, so a backup without one is unfinished.
//
// Thread safety: stateless functions over an open directory that the caller owns.
#ifndef ENGINE_RACE_COPIES_BACKUP_MANIFEST_H_
#define ENGINE_RACE_COPIES_BACKUP_MANIFEST_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/copy_options.h"
#include "engine_race/base/status.h"
#include "engine_race/copies/backup_format.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

struct BackupIdentity {
  Geometry geometry;
  format::BackupManifest manifest{};
  // By bucket: all records below these sequence numbers are in the backup.
  std::vector<uint64_t> cut;

  // Also in the manifest, with its version.
  void SetGeometry(const Geometry& of_store);
  std::string parent_name() const { return manifest.parent_name; }
  // `report` may be null.
  void Describe(BackupReport* report) const;
};

// kNotFound when there is none; kCorruption for a damaged or unfinished one; kNotSupported for
// another version or geometry. Messages name `dir`.
Status ReadBackupManifest(int dir_fd, const std::string& dir, BackupIdentity* identity);

// Writes the manifest of a backup that is being made: openings refuse the backup.
Status WriteBackupUnfinished(int dir_fd, BackupIdentity* identity, mode_t file_mode);
// Makes the backup whole, durably.
Status CommitBackup(int dir_fd, BackupIdentity* identity, mode_t file_mode);
// Removes what an interrupted backup has left. Does nothing where there was none.
Status RemoveUnfinishedBackup(int dir_fd);

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_BACKUP_MANIFEST_H_

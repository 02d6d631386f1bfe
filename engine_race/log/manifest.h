// The manifest says which store this is, what shape it has and where its values lie. It is written
// atomically, when everything it stands for is on the device. It is written again when the store's
// paths have moved, when it gets a file of rows, and when a backup is noted.
//
// Thread safety: stateless functions over an open directory that the caller owns and has locked.
#ifndef ENGINE_RACE_LOG_MANIFEST_H_
#define ENGINE_RACE_LOG_MANIFEST_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/store_ids.h"

namespace engine_race {

struct StoreIdentity {
  Geometry geometry;
  uint64_t store_id = 0;
  // Of a clone: the seed of its source, which is not its own id.
  std::optional<uint64_t> other_seed_id;
  // Whether slots may have been used again: there is a file of rows.
  bool has_rows = false;
  // As many as geometry.path_count, absolute.
  std::vector<std::string> paths;
  // The backups that the store has noted, as in the manifest; 0: none.
  std::array<uint64_t, format::kNotedBackupCount> noted_backups{};

  // Seeds the checksums of entries, values and counts. Files are told apart by the store id.
  uint64_t seed_id() const { return other_seed_id.value_or(store_id); }
  StoreIds ids() const { return {store_id, seed_id()}; }
};

// kNotSupported for a manifest or marker, called `name`, of another format version. The message
// says how to bring over a store of a build that was not released.
Status CheckFormatVersion(const std::string& name, uint32_t format_version);

// kNotFound when there is none; kCorruption for a truncated, damaged or foreign one; kNotSupported
// for another format version or a geometry that cannot be used.
Status ReadManifest(int dir_fd, StoreIdentity* identity, const char* name = format::kManifestName);

// kInvalidArgument when a manifest has no room for the names of the paths.
Status CheckPathNames(const StoreIdentity& identity);
// kInvalidArgument when the caller names another size of values, or other keys, than the manifest.
Status CheckAgainst(const Options& given, const StoreIdentity& identity);

// Writes a new file, syncs it, renames it into place and syncs the directory.
Status WriteManifest(int dir_fd, const StoreIdentity& identity, mode_t file_mode,
                     const char* name = format::kManifestName);

// Notes a backup in the manifest and in *identity, and its parent, unless that is 0, behind it.
Status WriteNoteOfBackup(int dir_fd, mode_t file_mode, uint64_t backup_id, uint64_t parent_id,
                         StoreIdentity* identity);

// Renames the file `name` to kManifestName, durably. `name` is one of the two that a manifest has
// while its store is being made. With kManifestDraftName the next creation takes the id of an
// interrupted one, and so knows the paths that bear it. With kManifestUnfinishedName openings
// refuse the directory.
Status CommitManifest(int dir_fd, const char* name);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_MANIFEST_H_

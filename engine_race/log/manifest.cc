#include "engine_race/log/manifest.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>

#include "engine_race/base/checksum.h"
#include "engine_race/base/key.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "engine_race/log/format.h"
#include "engine_race/log/segment_format.h"

namespace engine_race {
namespace {

using format::Manifest;
using format::ManifestPaths;

uint64_t ChecksumOf(const Manifest& manifest) {
  return Hash64(&manifest, offsetof(Manifest, checksum), format::kManifestMagic);
}

uint64_t ChecksumOf(const ManifestPaths& paths, uint64_t store_id) {
  return Hash64(&paths, offsetof(ManifestPaths, checksum), store_id);
}

Status Unreleased(const std::string& what) {
  return Status::NotSupported(what + " is of a build before the first release: back the store up " +
                              "with that build, and restore the backup with this one");
}

Status ParsePaths(const ManifestPaths& paths, StoreIdentity* identity) {
  if (paths.checksum != ChecksumOf(paths, identity->store_id)) {
    return Status::Corruption("manifest: the checksum of its paths does not match");
  }
  identity->geometry.path_count = paths.path_count;
  // The division of the keys needs a sound geometry.
  ENGINE_RACE_RETURN_IF_ERROR(CheckGeometry(identity->geometry));
  if (paths.segment_records != identity->geometry.row_records()) {
    return Unreleased("manifest: a store with other segments");
  }
  const KeyRange keys = {paths.first_key, paths.last_key};
  if (keys.empty()) return Status::Corruption("manifest: it names no keys");
  identity->geometry.Divide(keys);
  if (paths.row_form != 0 && paths.row_form != format::kRowForm) {
    return Unreleased("manifest: a store with other rows of slots");
  }
  identity->has_rows = paths.row_form != 0;
  identity->other_seed_id.reset();
  if (paths.seed_id != identity->store_id) identity->other_seed_id = paths.seed_id;
  std::copy_n(paths.noted_backups, format::kNotedBackupCount, identity->noted_backups.begin());
  const char* next = paths.names;
  const char* const end = paths.names + format::kPathNamesBytes;
  identity->paths.clear();
  for (uint32_t i = 0; i < paths.path_count; ++i) {
    const char* const stop = std::find(next, end, '\0');
    if (stop == end || stop == next) {
      return Status::Corruption("manifest: path " + std::to_string(i) + " has no name");
    }
    identity->paths.emplace_back(next, stop);
    next = stop + 1;
  }
  return Status::Ok();
}

Status PutNames(const StoreIdentity& identity, ManifestPaths* paths) {
  size_t used_bytes = 0;
  for (const std::string& name : identity.paths) {
    if (name.find('\0') != std::string::npos) {
      return Status::InvalidArgument("the name of a path has a zero byte in it");
    }
    if (used_bytes + name.size() + 1 > format::kPathNamesBytes) {
      return Status::InvalidArgument(
          "the names of the paths are too long for the manifest: it has " +
          std::to_string(format::kPathNamesBytes) + " bytes for them");
    }
    std::memcpy(paths->names + used_bytes, name.data(), name.size());
    used_bytes += name.size() + 1;
  }
  return Status::Ok();
}

Status Parse(const Manifest& manifest, const ManifestPaths& paths, StoreIdentity* identity) {
  if (manifest.magic != format::kManifestMagic) {
    return Status::Corruption("manifest: not the manifest of an engine_race store");
  }
  if (manifest.checksum != ChecksumOf(manifest)) {
    return Status::Corruption("manifest: its checksum does not match");
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckFormatVersion("manifest", manifest.format_version));
  if (manifest.entry_bytes == 0) {
    return Unreleased("manifest: format version 1 without a size of key entries");
  }
  if (manifest.key_bytes != kKeyBytes || manifest.entry_bytes != kKeyEntryBytes) {
    return Status::NotSupported("manifest: other sizes of keys or key entries");
  }
  if (manifest.value_bytes < kMinValueBytes || manifest.value_bytes > kMaxValueBytes) {
    return Status::NotSupported("manifest: values of " + std::to_string(manifest.value_bytes) +
                                " bytes");
  }
  if (manifest.value_places != format::kValuePlaces) {
    return Status::NotSupported("manifest: another number of staging places");
  }
  Geometry& geometry = identity->geometry;
  geometry.layout = ValueLayout(manifest.value_bytes);
  geometry.bucket_count = manifest.bucket_count;
  geometry.file_count = manifest.file_count;
  geometry.value_group_bytes = manifest.value_group_bytes;
  geometry.key_group_bytes = manifest.key_group_bytes;
  geometry.bucket_capacity_records = manifest.bucket_capacity_records;
  identity->store_id = manifest.store_id;
  return ParsePaths(paths, identity);
}

}  // namespace

Status ReadManifest(int dir_fd, StoreIdentity* identity, const char* name) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, name, &exists));
  if (!exists) return Status::NotFound();
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(
      io::File::Open(dir_fd, name, io::Access::kRead, io::Caching::kBuffered, &file));
  std::array<char, format::kManifestBytes> page{};
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.ReadSome(page.data(), page.size(), 0, &read_bytes));
  if (read_bytes < page.size()) {
    return Status::Corruption("manifest: truncated to " + std::to_string(read_bytes) + " bytes");
  }
  Manifest manifest;
  std::memcpy(&manifest, page.data(), sizeof(manifest));
  ManifestPaths paths;
  std::memcpy(&paths, page.data() + sizeof(manifest), sizeof(paths));
  return Parse(manifest, paths, identity);
}

Status WriteManifest(int dir_fd, const StoreIdentity& identity, mode_t file_mode,
                     const char* name) {
  const Geometry& geometry = identity.geometry;
  Manifest manifest{};
  manifest.magic = format::kManifestMagic;
  manifest.format_version = format::kFormatVersion;
  manifest.key_bytes = kKeyBytes;
  manifest.entry_bytes = kKeyEntryBytes;
  manifest.value_bytes = geometry.value_bytes();
  manifest.bucket_count = geometry.bucket_count;
  manifest.file_count = geometry.file_count;
  manifest.value_group_bytes = geometry.value_group_bytes;
  manifest.key_group_bytes = geometry.key_group_bytes;
  manifest.value_places = format::kValuePlaces;
  manifest.bucket_capacity_records = geometry.bucket_capacity_records;
  manifest.store_id = identity.store_id;
  manifest.checksum = ChecksumOf(manifest);
  ManifestPaths paths{};
  paths.segment_records = geometry.row_records();
  paths.path_count = geometry.path_count;
  paths.row_form = identity.has_rows ? format::kRowForm : 0;
  paths.seed_id = identity.seed_id();
  paths.first_key = geometry.keys().first;
  paths.last_key = geometry.keys().last;
  std::copy(identity.noted_backups.begin(), identity.noted_backups.end(), paths.noted_backups);
  ENGINE_RACE_RETURN_IF_ERROR(PutNames(identity, &paths));
  paths.checksum = ChecksumOf(paths, identity.store_id);
  std::array<char, format::kManifestBytes> page{};
  std::memcpy(page.data(), &manifest, sizeof(manifest));
  std::memcpy(page.data() + sizeof(manifest), &paths, sizeof(paths));
  return io::ReplaceFile(dir_fd, format::kManifestTempName, name, {page.data(), page.size()},
                         file_mode);
}

Status CommitManifest(int dir_fd, const char* name) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(dir_fd, name, format::kManifestName));
  return sys::Fsync(dir_fd);
}

Status CheckFormatVersion(const std::string& name, uint32_t format_version) {
  if (format_version == format::kFormatVersion) return Status::Ok();
  const std::string version = name + ": format version " + std::to_string(format_version);
  if (format_version < format::kFirstUnreleasedVersion ||
      format_version > format::kLastUnreleasedVersion) {
    return Status::NotSupported(version + ", this build reads " +
                                std::to_string(format::kFormatVersion));
  }
  return Unreleased(version);
}

Status CheckPathNames(const StoreIdentity& identity) {
  ManifestPaths paths{};
  return PutNames(identity, &paths);
}

Status CheckAgainst(const Options& given, const StoreIdentity& identity) {
  const uint32_t value_bytes = identity.geometry.value_bytes();
  if (given.value_bytes != 0 && given.value_bytes != value_bytes) {
    return Status::InvalidArgument("value_bytes is " + std::to_string(given.value_bytes) +
                                   ", but that of the store is " + std::to_string(value_bytes));
  }
  const KeyRange& keys = identity.geometry.keys();
  if (!given.key_range || *given.key_range == keys) return Status::Ok();
  return Status::InvalidArgument("key_range is " + ToString(*given.key_range) +
                                 ", but that of the store is " + ToString(keys));
}

Status WriteNoteOfBackup(int dir_fd, mode_t file_mode, uint64_t backup_id, uint64_t parent_id,
                         StoreIdentity* identity) {
  StoreIdentity with_note = *identity;
  auto& noted = with_note.noted_backups;
  for (const uint64_t id : {parent_id, backup_id}) {
    if (id == 0) continue;
    // To the front, over its own place or over the last one.
    const auto place = std::find(noted.begin(), noted.end() - 1, id);
    *place = id;
    std::rotate(noted.begin(), place, place + 1);
  }
  ENGINE_RACE_RETURN_IF_ERROR(WriteManifest(dir_fd, with_note, file_mode));
  identity->noted_backups = noted;
  return Status::Ok();
}

}  // namespace engine_race

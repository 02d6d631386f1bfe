#include "engine_race/copies/backup_manifest.h"

#include <algorithm>
#include <cstring>

#include "engine_race/base/checksum.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"

namespace engine_race {
namespace {

using format::BackupManifest;

uint64_t ChecksumOf(const BackupIdentity& identity) {
  const uint64_t of_cut =
      Hash64(identity.cut.data(), identity.cut.size() * sizeof(uint64_t), format::kBackupMagic);
  return Hash64(&identity.manifest, offsetof(BackupManifest, checksum), of_cut);
}

// All that must hold before the cut is read.
Status CheckManifest(const BackupManifest& manifest, const std::string& dir, Geometry* geometry) {
  const std::string name = dir + "/" + format::kBackupManifestName;
  if (manifest.magic != format::kBackupMagic) {
    return Status::Corruption(name + ": not the manifest of a backup");
  }
  const bool is_sized = manifest.backup_version == format::kSizedBackupVersion;
  if (manifest.backup_version != format::kBackupVersion && !is_sized) {
    return Status::NotSupported(name + ": version " + std::to_string(manifest.backup_version) +
                                ", this build reads " + std::to_string(format::kBackupVersion) +
                                " and " + std::to_string(format::kSizedBackupVersion));
  }
  const uint32_t value_bytes = is_sized ? manifest.value_bytes : kValueBytes;
  if (value_bytes < kMinValueBytes || value_bytes > kMaxValueBytes) {
    return Status::NotSupported(name + ": values of " + std::to_string(value_bytes) + " bytes");
  }
  geometry->layout = ValueLayout(value_bytes);
  geometry->bucket_count = manifest.bucket_count;
  geometry->file_count = manifest.file_count;
  geometry->value_group_bytes = manifest.value_group_bytes;
  // The manifest of an earlier build may have more. A backup holds records in the order of their
  // numbers, whatever their groups were.
  geometry->key_group_bytes = std::min(manifest.key_group_bytes, kMaxKeyGroupBytes);
  geometry->bucket_capacity_records = manifest.bucket_capacity_records;
  const Status sound = CheckGeometry(*geometry);
  return sound.Prefixed(name + ": ");
}

Status WriteAs(int dir_fd, const char* name, BackupIdentity* identity, mode_t file_mode) {
  identity->manifest.checksum = ChecksumOf(*identity);
  const uint64_t cut_bytes = identity->cut.size() * sizeof(uint64_t);
  std::vector<char> bytes(RoundUp(sizeof(BackupManifest) + cut_bytes, sizeof(BackupManifest)));
  std::memcpy(bytes.data(), &identity->manifest, sizeof(BackupManifest));
  std::memcpy(bytes.data() + sizeof(BackupManifest), identity->cut.data(), cut_bytes);
  return io::ReplaceFile(dir_fd, format::kBackupTempName, name, {bytes.data(), bytes.size()},
                         file_mode);
}

}  // namespace

void BackupIdentity::SetGeometry(const Geometry& of_store) {
  geometry = of_store;
  const bool is_sized = geometry.value_bytes() != kValueBytes;
  manifest.magic = format::kBackupMagic;
  manifest.backup_version = is_sized ? format::kSizedBackupVersion : format::kBackupVersion;
  manifest.value_bytes = is_sized ? geometry.value_bytes() : 0;
  manifest.bucket_count = geometry.bucket_count;
  manifest.file_count = geometry.file_count;
  manifest.value_group_bytes = geometry.value_group_bytes;
  manifest.key_group_bytes = geometry.key_group_bytes;
  manifest.bucket_capacity_records = geometry.bucket_capacity_records;
  manifest.first_key = geometry.keys().first;
  manifest.last_key = geometry.keys().last;
}

void BackupIdentity::Describe(BackupReport* report) const {
  if (report == nullptr) return;
  report->record_count = manifest.record_count;
  report->value_count = manifest.value_count;
  report->chain_length = manifest.chain_length;
  report->size_bytes = manifest.data_bytes + sizeof(manifest);
}

Status ReadBackupManifest(int dir_fd, const std::string& dir, BackupIdentity* identity) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kBackupManifestName, &exists));
  if (!exists) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kBackupUnfinishedName, &exists));
    if (exists) return Status::Corruption(dir + ": the backup there was never finished");
    return Status(Code::kNotFound, dir + ": there is no backup");
  }
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kBackupManifestName, io::Access::kRead,
                                             io::Caching::kBuffered, &file));
  const auto damaged = [&dir](const char* why) {
    return Status::Corruption(dir + "/" + format::kBackupManifestName + ": " + why);
  };
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(
      file.ReadSome(&identity->manifest, sizeof(BackupManifest), 0, &read_bytes));
  if (read_bytes < sizeof(BackupManifest)) return damaged("it is truncated");
  ENGINE_RACE_RETURN_IF_ERROR(CheckManifest(identity->manifest, dir, &identity->geometry));
  identity->cut.resize(identity->geometry.bucket_count);
  const size_t cut_bytes = identity->cut.size() * sizeof(uint64_t);
  ENGINE_RACE_RETURN_IF_ERROR(
      file.ReadSome(identity->cut.data(), cut_bytes, sizeof(BackupManifest), &read_bytes));
  if (read_bytes < cut_bytes) return damaged("it is truncated");
  if (identity->manifest.checksum != ChecksumOf(*identity)) {
    return damaged("its checksum does not match");
  }
  const KeyRange keys = {identity->manifest.first_key, identity->manifest.last_key};
  if (keys.empty()) return damaged("it names no keys");
  if (identity->manifest.parent_name[format::kBackupParentNameBytes - 1] != '\0') {
    return damaged("the name of its parent has no end");
  }
  identity->geometry.Divide(keys);
  return Status::Ok();
}

Status WriteBackupUnfinished(int dir_fd, BackupIdentity* identity, mode_t file_mode) {
  return WriteAs(dir_fd, format::kBackupUnfinishedName, identity, file_mode);
}

Status CommitBackup(int dir_fd, BackupIdentity* identity, mode_t file_mode) {
  ENGINE_RACE_RETURN_IF_ERROR(WriteBackupUnfinished(dir_fd, identity, file_mode));
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::Rename(dir_fd, format::kBackupUnfinishedName, format::kBackupManifestName));
  return sys::Fsync(dir_fd);
}

Status RemoveUnfinishedBackup(int dir_fd) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kBackupUnfinishedName, &exists));
  if (!exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, format::kBackupDataName));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, format::kBackupTempName));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd));
  // Last: it marks the other files as what may be removed.
  ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, format::kBackupUnfinishedName));
  return sys::Fsync(dir_fd);
}

}  // namespace engine_race

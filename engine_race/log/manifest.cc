#include "engine_race/log/manifest.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <string>

#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "engine_race/log/format.h"

namespace engine_race {
namespace {

using format::Manifest;

uint64_t ChecksumOf(const Manifest& manifest) {
  return Hash64(&manifest, offsetof(Manifest, checksum), format::kManifestMagic);
}

Status Parse(const Manifest& manifest, StoreIdentity* identity) {
  if (manifest.magic != format::kManifestMagic) {
    return Status::Corruption("manifest: not the manifest of an engine_race store");
  }
  if (manifest.checksum != ChecksumOf(manifest)) {
    return Status::Corruption("manifest: its checksum does not match");
  }
  if (manifest.format_version != format::kFormatVersion) {
    return Status::NotSupported("manifest: format version " +
                                std::to_string(manifest.format_version) + ", this build reads " +
                                std::to_string(format::kFormatVersion));
  }
  if (manifest.key_bytes != kKeyBytes || manifest.value_bytes != kValueBytes) {
    return Status::NotSupported("manifest: other key or value sizes");
  }
  if (manifest.value_places != format::kValuePlaces) {
    return Status::NotSupported("manifest: another number of staging places");
  }
  Geometry& geometry = identity->geometry;
  geometry.bucket_count = manifest.bucket_count;
  geometry.file_count = manifest.file_count;
  geometry.value_group_bytes = manifest.value_group_bytes;
  geometry.key_group_bytes = manifest.key_group_bytes;
  geometry.bucket_capacity_records = manifest.bucket_capacity_records;
  identity->store_id = manifest.store_id;
  return CheckGeometry(geometry);
}

}  // namespace

Status ReadManifest(int dir_fd, StoreIdentity* identity) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kManifestName, &exists));
  if (!exists) return Status::NotFound();
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kManifestName, io::Access::kRead,
                                             io::Caching::kBuffered, &file));
  std::array<char, format::kManifestBytes> page{};
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.ReadSome(page.data(), page.size(), 0, &read_bytes));
  if (read_bytes < page.size()) {
    return Status::Corruption("manifest: truncated to " + std::to_string(read_bytes) + " bytes");
  }
  Manifest manifest;
  std::memcpy(&manifest, page.data(), sizeof(manifest));
  return Parse(manifest, identity);
}

Status WriteManifest(int dir_fd, const StoreIdentity& identity) {
  const Geometry& geometry = identity.geometry;
  Manifest manifest{};
  manifest.magic = format::kManifestMagic;
  manifest.format_version = format::kFormatVersion;
  manifest.key_bytes = kKeyBytes;
  manifest.value_bytes = kValueBytes;
  manifest.bucket_count = geometry.bucket_count;
  manifest.file_count = geometry.file_count;
  manifest.value_group_bytes = geometry.value_group_bytes;
  manifest.key_group_bytes = geometry.key_group_bytes;
  manifest.value_places = format::kValuePlaces;
  manifest.bucket_capacity_records = geometry.bucket_capacity_records;
  manifest.store_id = identity.store_id;
  manifest.checksum = ChecksumOf(manifest);
  std::array<char, format::kManifestBytes> page{};
  std::memcpy(page.data(), &manifest, sizeof(manifest));

  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kManifestTempName, io::Access::kCreate,
                                             io::Caching::kBuffered, &file));
  ENGINE_RACE_RETURN_IF_ERROR(file.Write(page.data(), page.size(), 0));
  ENGINE_RACE_RETURN_IF_ERROR(file.Sync());
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::Rename(dir_fd, format::kManifestTempName, format::kManifestName));
  return sys::Fsync(dir_fd);
}

}  // namespace engine_race

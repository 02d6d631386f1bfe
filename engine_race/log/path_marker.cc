#include "engine_race/log/path_marker.h"

#include <string>

#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"

namespace engine_race {
namespace {

using format::PathMarker;

uint64_t ChecksumOf(const PathMarker& marker) {
  return Hash64(&marker, offsetof(PathMarker, checksum), format::kMarkerMagic);
}

}  // namespace

Status ReadPathMarker(int dir_fd, PathMarker* marker) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kMarkerName, &exists));
  if (!exists) return Status::NotFound();
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kMarkerName, io::Access::kRead,
                                             io::Caching::kBuffered, &file));
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.ReadSome(marker, sizeof(*marker), 0, &read_bytes));
  const std::string name = format::kMarkerName;
  if (read_bytes < sizeof(*marker)) {
    return Status::Corruption(name + " is truncated to " + std::to_string(read_bytes) + " bytes");
  }
  if (marker->magic != format::kMarkerMagic || marker->checksum != ChecksumOf(*marker)) {
    return Status::Corruption(name + ": its checksum does not match");
  }
  return CheckFormatVersion(name, marker->format_version);
}

Status WritePathMarker(int dir_fd, const StoreIdentity& identity, size_t index, mode_t file_mode) {
  PathMarker marker{};
  marker.magic = format::kMarkerMagic;
  marker.format_version = format::kFormatVersion;
  marker.path_index = static_cast<uint32_t>(index);
  marker.path_count = static_cast<uint32_t>(identity.paths.size());
  marker.store_id = identity.store_id;
  marker.checksum = ChecksumOf(marker);
  return io::ReplaceFile(dir_fd, format::kMarkerTempName, format::kMarkerName,
                         {reinterpret_cast<const char*>(&marker), sizeof(marker)}, file_mode);
}

}  // namespace engine_race

#include "engine_race/log/value_paths.h"

#include <fcntl.h>

#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine_race/base/checksum.h"
#include "engine_race/io/block_device.h"
#include "engine_race/io/file.h"
#include "engine_race/log/device_header.h"
#include "engine_race/log/device_units.h"
#include "engine_race/log/format.h"

namespace engine_race {
namespace {

using format::PathMarker;

uint64_t ChecksumOf(const PathMarker& marker) {
  return Hash64(&marker, offsetof(PathMarker, checksum), format::kMarkerMagic);
}

// kNotFound when there is none.
Status ReadMarker(int dir_fd, PathMarker* marker) {
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
  if (marker->format_version != format::kFormatVersion) {
    return Status::NotSupported(name + ": format version " +
                                std::to_string(marker->format_version));
  }
  return Status::Ok();
}

Status WriteMarker(int dir_fd, const PathMarker& marker) {
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kMarkerTempName, io::Access::kCreate,
                                             io::Caching::kBuffered, &file));
  ENGINE_RACE_RETURN_IF_ERROR(file.Write(&marker, sizeof(marker), 0));
  ENGINE_RACE_RETURN_IF_ERROR(file.Sync());
  ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(dir_fd, format::kMarkerTempName, format::kMarkerName));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd));
  // The directory may be new itself.
  UniqueFd parent;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(dir_fd, "..", O_RDONLY | O_DIRECTORY, 0, &parent));
  return sys::Fsync(parent.get());
}

// Says which path a failure is about.
Status Prefixed(const std::string& prefix, const Status& status) {
  return status.ok() ? Status::Ok() : Status(status.code(), prefix + status.message());
}

// Opens a path's directory and takes its lock. `wrong` is the code for what cannot be right.
Status LockPath(int store_dir_fd, Code wrong, bool create, const std::vector<ValuePath>& before,
                ValuePath* path) {
  const std::string prefix = PathPrefix(before.size(), path->name);
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path->name, error);
  if (found.type() == std::filesystem::file_type::not_found) {
    if (!create) return Status(wrong, prefix + "it is missing");
  } else if (error) {
    return Status::FromErrno(prefix + "stat", error.value());
  } else if (found.type() != std::filesystem::file_type::directory) {
    return Status(wrong, prefix + "it is neither a directory nor a block device");
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      Prefixed(prefix, sys::OpenDirectory(path->name, create, &path->directory)));
  for (size_t i = 0; i < before.size(); ++i) {
    if (!before[i].directory.valid()) continue;
    bool same = false;
    ENGINE_RACE_RETURN_IF_ERROR(
        sys::SameFile(before[i].directory.get(), path->directory.get(), &same));
    if (!same) continue;
    return Status(wrong, prefix + "it is the same directory as path " + std::to_string(i));
  }
  bool own = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::SameFile(store_dir_fd, path->directory.get(), &own));
  // The store's own directory is locked already.
  return own ? Status::Ok() : Prefixed(prefix, sys::LockExclusive(path->directory.get()));
}

// Whether a directory is path `index` of the store.
Status CheckMarker(const StoreIdentity& identity, size_t index, Code wrong, const ValuePath& path) {
  const std::string prefix = PathPrefix(index, path.name);
  PathMarker marker;
  const Status read = ReadMarker(path.directory.get(), &marker);
  if (read.code() == Code::kNotFound) {
    return Status(wrong, prefix + "it has no " + format::kMarkerName +
                             ", so it is none of the store's paths");
  }
  ENGINE_RACE_RETURN_IF_ERROR(Prefixed(prefix, read));
  if (marker.store_id != identity.store_id) {
    return Status(wrong, prefix + "it belongs to another store");
  }
  if (marker.path_index != index || marker.path_count != identity.geometry.path_count) {
    return Status(wrong, prefix + "it is path " + std::to_string(marker.path_index) + " of " +
                             std::to_string(marker.path_count) + " of the store");
  }
  return Status::Ok();
}

// Whether a directory may become a path of a new store.
Status CheckUnmarked(const StoreIdentity& identity, const std::string& prefix,
                     const ValuePath& path, bool* foreign) {
  PathMarker marker;
  const Status read = ReadMarker(path.directory.get(), &marker);
  if (read.code() == Code::kNotFound) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(Prefixed(prefix, read));
  // An interrupted creation of this store may have left its own.
  if (marker.store_id == identity.store_id) return Status::Ok();
  *foreign = true;
  return Status::InvalidArgument(prefix + "it belongs to another store");
}

}  // namespace

std::string PathPrefix(size_t index, const std::string& name) {
  return "path " + std::to_string(index) + ", " + name + ": ";
}

Status AbsoluteNames(const std::vector<std::string>& given, std::vector<std::string>* names) {
  names->clear();
  for (const std::string& name : given) {
    std::error_code error;
    std::filesystem::path path = std::filesystem::absolute(name, error).lexically_normal();
    if (error) return Status::FromErrno("the absolute name of " + name, error.value());
    // "/data/" and "/data" are one name.
    if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
    names->push_back(path.string());
  }
  return Status::Ok();
}

Status MakeValuePaths(int store_dir_fd, const StoreIdentity& identity, bool overwrite_devices,
                      std::vector<ValuePath>* paths, bool* foreign) {
  *foreign = false;
  paths->clear();
  for (const std::string& name : identity.paths) {
    const std::string prefix = PathPrefix(paths->size(), name);
    ValuePath path;
    path.name = name;
    bool is_device = false;
    ENGINE_RACE_RETURN_IF_ERROR(Prefixed(prefix, io::BlockDevice::Is(name, &is_device)));
    if (is_device) {
      ENGINE_RACE_RETURN_IF_ERROR(
          Prefixed(prefix, io::BlockDevice::Open(name, /*read_only=*/false, &path.device)));
      ENGINE_RACE_RETURN_IF_ERROR(
          Prefixed(prefix, CheckFree(path.device, overwrite_devices, identity.store_id, foreign)));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(
          LockPath(store_dir_fd, Code::kInvalidArgument, /*create=*/true, *paths, &path));
      ENGINE_RACE_RETURN_IF_ERROR(CheckUnmarked(identity, prefix, path, foreign));
    }
    paths->push_back(std::move(path));
  }
  return Status::Ok();
}

Status CheckDevices(const StoreIdentity& identity, const std::vector<ValuePath>& paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!paths[i].device.file.valid()) continue;
    DeviceIdentity planned;
    ENGINE_RACE_RETURN_IF_ERROR(
        Prefixed(PathPrefix(i, paths[i].name), PlanDevice(identity, i, paths[i].device, &planned)));
  }
  return Status::Ok();
}

Status WritePathMarkers(int store_dir_fd, const StoreIdentity& identity,
                        std::vector<ValuePath>* paths) {
  for (size_t i = 0; i < paths->size(); ++i) {
    ValuePath& path = (*paths)[i];
    const std::string prefix = PathPrefix(i, path.name);
    if (path.device.file.valid()) {
      ENGINE_RACE_RETURN_IF_ERROR(Prefixed(prefix, MakeDevice(store_dir_fd, identity, i, &path)));
      continue;
    }
    PathMarker marker{};
    marker.magic = format::kMarkerMagic;
    marker.format_version = format::kFormatVersion;
    marker.path_index = static_cast<uint32_t>(i);
    marker.path_count = static_cast<uint32_t>(paths->size());
    marker.store_id = identity.store_id;
    marker.checksum = ChecksumOf(marker);
    ENGINE_RACE_RETURN_IF_ERROR(Prefixed(prefix, WriteMarker(path.directory.get(), marker)));
  }
  return Status::Ok();
}

Status OpenValuePaths(int store_dir_fd, const std::vector<std::string>& given, bool read_only,
                      StoreIdentity* identity, std::vector<ValuePath>* paths, bool* moved) {
  *moved = false;
  paths->clear();
  const std::vector<std::string> known = identity->paths;
  if (!given.empty()) {
    if (given.size() != known.size()) {
      return Status::InvalidArgument(
          "the store has " + std::to_string(known.size()) + " paths, not " +
          std::to_string(given.size()) +
          (known.empty() ? ": its values are in its own directory" : ""));
    }
    ENGINE_RACE_RETURN_IF_ERROR(AbsoluteNames(given, &identity->paths));
  }
  for (size_t i = 0; i < known.size(); ++i) {
    ValuePath path;
    path.name = identity->paths[i];
    // What the manifest says itself is not the caller's mistake.
    const Code wrong = path.name == known[i] ? Code::kCorruption : Code::kInvalidArgument;
    bool is_device = false;
    ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Is(path.name, &is_device));
    if (is_device) {
      ENGINE_RACE_RETURN_IF_ERROR(
          Prefixed(PathPrefix(i, path.name),
                   OpenDevice(store_dir_fd, *identity, i, read_only, wrong, &path)));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(LockPath(store_dir_fd, wrong, /*create=*/false, *paths, &path));
      ENGINE_RACE_RETURN_IF_ERROR(CheckMarker(*identity, i, wrong, path));
    }
    paths->push_back(std::move(path));
  }
  *moved = identity->paths != known;
  return Status::Ok();
}

}  // namespace engine_race

#include "engine_race/log/value_paths.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "engine_race/base/sys.h"
#include "engine_race/io/block_device.h"
#include "engine_race/log/device_header.h"
#include "engine_race/log/format.h"
#include "engine_race/log/path_marker.h"

namespace engine_race {
namespace {

// How the directory of a path is to be opened.
struct PathOpening {
  int store_dir_fd = -1;
  // The code of a failure that is the path's own, not one of reading.
  Code wrong = Code::kCorruption;
  bool create = false;
  PathAccess access = PathAccess::kWriting;
  mode_t directory_mode = 0;
  mode_t file_mode = 0;
};

Status TakeLock(const PathOpening& how, ValuePath* path) {
  const int dir_fd = path->directory.get();
  if (how.access == PathAccess::kFollowing) return Status::Ok();
  if (how.access == PathAccess::kWriting) {
    return DirectoryLock::TakeToWrite(dir_fd, how.file_mode, &path->lock);
  }
  Status locked = DirectoryLock::TakeToRead(dir_fd, &path->lock);
  if (locked.code() != Code::kNotFound) return locked;
  return Status(how.wrong, format::kLockName + std::string(" is missing"));
}

// Opens a path's directory and takes its lock.
Status OpenDirectoryOf(const PathOpening& how, const std::vector<ValuePath>& before,
                       ValuePath* path) {
  const std::string prefix = PathPrefix(before.size(), path->name);
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path->name, error);
  if (found.type() == std::filesystem::file_type::not_found) {
    if (!how.create) return Status(how.wrong, prefix + "it is missing").At(path->name, ENOENT);
  } else if (error) {
    return Status::FromErrno(prefix + "stat", error.value(), path->name);
  } else if (found.type() != std::filesystem::file_type::directory) {
    return Status(how.wrong, prefix + "it is neither a directory nor a block device");
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::OpenDirectory(path->name, how.create, &path->directory, how.directory_mode)
          .Prefixed(prefix));
  const int dir_fd = path->directory.get();
  if (how.create) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::RefuseAmongDevices(path->name, dir_fd).Prefixed(prefix));
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (!before[i].directory.valid()) continue;
    bool same = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::SameFile(before[i].directory.get(), dir_fd, &same));
    if (!same) continue;
    return Status(how.wrong, prefix + "it is the same directory as path " + std::to_string(i));
  }
  bool own = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::SameFile(how.store_dir_fd, dir_fd, &own));
  // The store's own directory is locked already.
  return own ? Status::Ok() : TakeLock(how, path).Prefixed(prefix);
}

// Whether a directory is path `index` of the store.
Status CheckMarker(const StoreIdentity& identity, size_t index, Code wrong, const ValuePath& path) {
  const std::string prefix = PathPrefix(index, path.name);
  format::PathMarker marker;
  const Status read = ReadPathMarker(path.directory.get(), &marker);
  if (read.code() == Code::kNotFound) {
    return Status(wrong, prefix + "it has no " + format::kMarkerName +
                             ", so it is none of the store's paths");
  }
  ENGINE_RACE_RETURN_IF_ERROR(read.Prefixed(prefix));
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
  format::PathMarker marker;
  const Status read = ReadPathMarker(path.directory.get(), &marker);
  if (read.code() == Code::kNotFound) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(read.Prefixed(prefix));
  // An interrupted creation of this store may have left its own.
  if (marker.store_id == identity.store_id) return Status::Ok();
  *foreign = true;
  return Status::InvalidArgument(prefix + "it belongs to another store");
}

// A store that was killed holds its devices until the kernel has taken its rings apart. That is
// some time after the process is gone and the store's lock is free.
Status OpenWhenFree(const std::string& name, bool read_only, io::BlockDevice* device) {
  constexpr auto kStep = std::chrono::milliseconds(10);
  constexpr auto kLongest = std::chrono::seconds(2);
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    bool in_use = false;
    Status opened = io::BlockDevice::Open(name, read_only, device, &in_use);
    if (!in_use || std::chrono::steady_clock::now() - began > kLongest) return opened;
    std::this_thread::sleep_for(kStep);
  }
}

// The header of the device that is path `index` of a store. The caller sets the segment count.
format::DeviceHeader HeaderOf(const StoreIdentity& identity, size_t index) {
  format::DeviceHeader header{};
  header.path_index = static_cast<uint32_t>(index);
  header.path_count = identity.geometry.path_count;
  header.segment_bytes = identity.geometry.segment_value_bytes();
  header.store_id = identity.store_id;
  return header;
}

// Opens the device that is path `index` of a store. `wrong` is the code for what is not its own.
Status OpenDevice(const StoreIdentity& identity, size_t index, bool read_only, Code wrong,
                  ValuePath* path) {
  ENGINE_RACE_RETURN_IF_ERROR(OpenWhenFree(path->name, read_only, &path->device));
  return CheckDeviceHeader(path->device, HeaderOf(identity, index), wrong, &path->segment_count);
}

}  // namespace

std::string PathPrefix(size_t index, const std::string& name) {
  return "path " + std::to_string(index) + ", " + name + ": ";
}

Status AbsoluteNames(const std::vector<std::string>& given, std::vector<std::string>* names) {
  names->clear();
  for (const std::string& name : given) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(name, error);
    if (error) return Status::FromErrno("the absolute name of " + name, error.value(), name);
    // "/data/" and "/./data" are "/data"; what "/link/../data" is only the file system knows.
    std::filesystem::path plain;
    for (const std::filesystem::path& part : path) {
      if (!part.empty() && part != ".") plain /= part;
    }
    names->push_back(plain.string());
  }
  return Status::Ok();
}

Status MakeValuePaths(int store_dir_fd, const StoreIdentity& identity, const Options& options,
                      std::vector<ValuePath>* paths, bool* foreign) {
  PathOpening how;
  how.store_dir_fd = store_dir_fd;
  how.wrong = Code::kInvalidArgument;
  how.create = true;
  how.directory_mode = options.directory_mode;
  how.file_mode = options.file_mode;
  *foreign = false;
  paths->clear();
  for (const std::string& name : identity.paths) {
    const std::string prefix = PathPrefix(paths->size(), name);
    ValuePath path;
    path.name = name;
    bool is_device = false;
    ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Is(name, &is_device).Prefixed(prefix));
    if (is_device) {
      ENGINE_RACE_RETURN_IF_ERROR(
          io::BlockDevice::Open(name, /*read_only=*/false, &path.device).Prefixed(prefix));
      ENGINE_RACE_RETURN_IF_ERROR(
          CheckFree(path.device, options.overwrite_devices, identity.store_id, foreign)
              .Prefixed(prefix));
      ENGINE_RACE_RETURN_IF_ERROR(PlanSegments(path.device.size_bytes,
                                               identity.geometry.segment_value_bytes(),
                                               &path.segment_count)
                                      .Prefixed(prefix));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(OpenDirectoryOf(how, *paths, &path));
      ENGINE_RACE_RETURN_IF_ERROR(CheckUnmarked(identity, prefix, path, foreign));
    }
    paths->push_back(std::move(path));
  }
  return Status::Ok();
}

Status WritePathMarkers(const StoreIdentity& identity, mode_t file_mode,
                        const std::vector<ValuePath>& paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    const ValuePath& path = paths[i];
    const std::string prefix = PathPrefix(i, path.name);
    if (path.is_device()) {
      format::DeviceHeader header = HeaderOf(identity, i);
      header.segment_count = path.segment_count;
      ENGINE_RACE_RETURN_IF_ERROR(WriteDeviceHeader(path.device, header).Prefixed(prefix));
      continue;
    }
    const int dir_fd = path.directory.get();
    ENGINE_RACE_RETURN_IF_ERROR(WritePathMarker(dir_fd, identity, i, file_mode).Prefixed(prefix));
    // The directory may be new itself.
    ENGINE_RACE_RETURN_IF_ERROR(sys::SyncNameOf(path.name, dir_fd).Prefixed(prefix));
  }
  return Status::Ok();
}

Status OpenValuePaths(int store_dir_fd, const std::vector<std::string>& given, PathAccess access,
                      mode_t file_mode, StoreIdentity* identity, std::vector<ValuePath>* paths,
                      bool* moved) {
  PathOpening how;
  how.store_dir_fd = store_dir_fd;
  how.access = access;
  how.file_mode = file_mode;
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
    // A path that the manifest names itself is not the caller's mistake.
    how.wrong = path.name == known[i] ? Code::kCorruption : Code::kInvalidArgument;
    bool is_device = false;
    ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Is(path.name, &is_device));
    if (is_device && access == PathAccess::kFollowing) {
      return Status(Code::kNotSupported,
                    PathPrefix(i, path.name) + "a store with a raw device cannot be followed");
    }
    if (is_device) {
      ENGINE_RACE_RETURN_IF_ERROR(
          OpenDevice(*identity, i, access != PathAccess::kWriting, how.wrong, &path)
              .Prefixed(PathPrefix(i, path.name)));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(OpenDirectoryOf(how, *paths, &path));
      ENGINE_RACE_RETURN_IF_ERROR(CheckMarker(*identity, i, how.wrong, path));
    }
    paths->push_back(std::move(path));
  }
  *moved = identity->paths != known;
  return Status::Ok();
}

}  // namespace engine_race

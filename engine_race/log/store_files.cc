#include "engine_race/log/store_files.h"

#include <fcntl.h>

#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/sys_prefetch.h"
#include "engine_race/log/descriptors.h"
#include "engine_race/log/format.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/planned_files.h"
#include "engine_race/log/space_reserve.h"
#include "engine_race/log/store_creation.h"
#include "engine_race/log/value_paths.h"

namespace engine_race {
namespace {

// A copy made of hard links is no backup: the store's writes in place change it as well.
Status WarnOfLinks(const LogFn& log, const PlannedFile& planned) {
  bool regular = false;
  uint64_t link_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::RegularFile(planned.file->fd(), &regular, &link_count));
  if (link_count > 1) {
    Log(log, LogLevel::kWarning,
        planned.title + " has " + std::to_string(link_count) +
            " names (hard links): writes of this store change what is kept under the others");
  }
  return Status::Ok();
}

// *moved when the names of the paths are no longer those in the manifest.
Status OpenExisting(const Options& options, io::Access access, StoreFiles* files, bool* moved) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckAgainst(options, files->identity));
  ENGINE_RACE_RETURN_IF_ERROR(CheckDescriptors(
      files->identity.geometry, options.paths.empty() ? files->identity.paths : options.paths,
      kOpenWhenLocked));
  std::vector<ValuePath> paths;
  const PathAccess path_access = access != io::Access::kRead ? PathAccess::kWriting
                                 : options.follow            ? PathAccess::kFollowing
                                                             : PathAccess::kReading;
  ENGINE_RACE_RETURN_IF_ERROR(OpenValuePaths(files->directory.get(), options.paths, path_access,
                                             options.file_mode, &files->identity, &paths, moved));
  if (paths.empty()) paths = OwnDirectory();
  files->slots.Init(files->identity.geometry, files->directory.get(), std::move(paths),
                    options.page_cache && access == io::Access::kRead ? io::Caching::kBuffered
                                                                      : io::Caching::kDirect);
  for (const PlannedFile& planned : PlanFiles(files)) {
    bool exists = false;
    uint64_t link_count = 0;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(planned.dir_fd, planned.name, &exists, &link_count));
    if (!exists) return Status::Corruption(planned.title + " is missing");
    // The opening of others fails, or warns of more names.
    if (planned.is_opened_late && link_count == 1 &&
        sys::MayOpen(planned.dir_fd, planned.name, access != io::Access::kRead)) {
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(OpenPlanned(planned, access, options.file_mode));
    uint64_t size_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Size(&size_bytes));
    if (size_bytes < planned.size_bytes) {
      return Status::Corruption(planned.title + " is truncated to " + std::to_string(size_bytes) +
                                " bytes");
    }
    if (access != io::Access::kRead) {
      ENGINE_RACE_RETURN_IF_ERROR(WarnOfLinks(options.log, planned));
    }
  }
  uint64_t damaged_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(
      files->slots.Load(files->identity.seed_id(), &damaged_count, options.follow));
  if (damaged_count != 0) {
    Log(options.log, LogLevel::kError,
        format::kSegmentTableName + std::string(": ") + std::to_string(damaged_count) +
            " entries are damaged, and what lies in their segments is lost");
  }
  ENGINE_RACE_RETURN_IF_ERROR(files->slots.OpenUsed(access == io::Access::kRead));
  return CheckReserve(*files);
}

// A store is made behind its lock, whose file then stays. Without it some process may have the
// store open under a lock of the removed file, and a new file would not show that lock.
Status RequireLockFile(int dir_fd) {
  StoreIdentity identity;
  const Status found = ReadManifest(dir_fd, &identity);
  if (found.code() == Code::kNotFound) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(found);
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kLockName, &exists));
  if (exists) return Status::Ok();
  return Status::Corruption(std::string(format::kLockName) +
                            " is missing; when no process has the store open, make an empty one");
}

// Starts to read the small files of an opening, all at once, so that it waits for the device once
// and not once for each file. The lock file is not among them: it is read at once. The rows come
// last: that file is large, and the call may wait for the map of its blocks.
//
// Not under a memory policy: the pages would lie where the caller's thread runs.
void PrefetchSmallFiles(int dir_fd, const Options& options) {
  if (options.numa.mode != NumaMode::kNone) return;
  for (const char* const name :
       {format::kManifestName, format::kSegmentTableName, format::kStagingCountsName,
        format::kIndexRootName, format::kRowsName}) {
    const Status started = sys::PrefetchFile(dir_fd, name);
    if (!started.ok())
      Log(options.log, LogLevel::kWarning, "not read ahead: " + started.ToString());
  }
}

// Takes the lock and reads the manifest under it. kNotFound when there is no store.
Status LockToWrite(const Options& options, StoreFiles* files,
                   DirectoryLock::Purpose purpose = DirectoryLock::Purpose::kWriting) {
  const int dir_fd = files->directory.get();
  PrefetchSmallFiles(dir_fd, options);
  ENGINE_RACE_RETURN_IF_ERROR(RequireLockFile(dir_fd));
  ENGINE_RACE_RETURN_IF_ERROR(
      DirectoryLock::TakeToWrite(dir_fd, options.file_mode, &files->lock, purpose));
  return ReadManifest(dir_fd, &files->identity);
}

// LockToWrite for a reader, which shares the lock with other readers.
Status LockToRead(const Options& options, StoreFiles* files) {
  const int dir_fd = files->directory.get();
  PrefetchSmallFiles(dir_fd, options);
  ENGINE_RACE_RETURN_IF_ERROR(RequireLockFile(dir_fd));
  ENGINE_RACE_RETURN_IF_ERROR(DirectoryLock::TakeToRead(dir_fd, &files->lock));
  return ReadManifest(dir_fd, &files->identity);
}

// Opens and locks `dir`, in which there must be nothing but what the file system itself makes.
Status LockEmptyDirectory(const Options& options, const std::string& dir, Publishing publishing,
                          StoreFiles* files) {
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::OpenDirectory(dir, /*create=*/true, &files->directory, options.directory_mode));
  const int dir_fd = files->directory.get();
  const Status found = LockToWrite(options, files);
  if (!found.ok() && found.code() != Code::kNotFound) return found;
  const bool may_be_unfinished = publishing == Publishing::kFromUnfinished && !found.ok();
  if (may_be_unfinished) ENGINE_RACE_RETURN_IF_ERROR(RemoveUnfinished(dir_fd));
  // Of an unfinished store, the first name. It is replaced before it is used.
  return RefuseOtherFiles(dir_fd, dir, [may_be_unfinished](const std::string& name) {
    return may_be_unfinished && name == format::kManifestTempName;
  });
}

// The store is there.
void SettleLocks(StoreFiles* files) {
  files->lock.Settle();
  files->slots.SettleLocks();
}

}  // namespace

std::vector<ValuePath> OwnDirectory() {
  std::vector<ValuePath> paths;
  paths.emplace_back();
  return paths;
}

Status OpenStoreFiles(const Options& options, const std::string& dir, StoreFiles* files,
                      const Placement& memory) {
  if (options.create_if_missing) {
    bool exists = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, dir, &exists));
    // Before anything is made.
    if (!exists) {
      ENGINE_RACE_RETURN_IF_ERROR(
          CheckDescriptors(GeometryFrom(options), options.paths, /*open_count=*/0));
    }
  }
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, options.create_if_missing, &files->directory,
                                                 options.directory_mode));
  const int dir_fd = files->directory.get();
  if (!options.create_if_missing) {
    bool exists = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kManifestName, &exists));
    if (!exists) return Status::NotFound();
  }
  const Status found = LockToWrite(options, files);
  if (found.code() == Code::kNotFound) {
    const auto fill = [&memory](StoreFiles* made) {
      const PolicyScope scope(memory);
      return WriteNewCounts(*made, std::vector<uint64_t>(made->identity.geometry.bucket_count),
                            PageCacheId(*made));
    };
    ENGINE_RACE_RETURN_IF_ERROR(CreateStore(options, dir, Publishing::kUsual, fill, files));
    ENGINE_RACE_RETURN_IF_ERROR(files->slots.OpenUsed(/*read_only=*/false));
    files->slots.CloseUnused();
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(found);
    bool moved = false;
    ENGINE_RACE_RETURN_IF_ERROR(OpenExisting(options, io::Access::kReadWrite, files, &moved));
    if (moved) {
      ENGINE_RACE_RETURN_IF_ERROR(WriteManifest(dir_fd, files->identity, options.file_mode));
    }
  }
  SettleLocks(files);
  for (const ValuePath& path : files->slots.paths()) {
    if (files->slots.value_file(path.first_file).direct()) continue;
    Log(options.log, LogLevel::kWarning,
        (path.name.empty() ? dir : path.name) +
            ": the file system refuses O_DIRECT, the logs go through the page cache");
  }
  return Status::Ok();
}

Status MakeFilledStore(const Options& options, const std::string& dir, Publishing publishing,
                       const FillFn& fill) {
  const bool is_unfinished = publishing == Publishing::kFromUnfinished;
  ENGINE_RACE_ASSERT(options.paths.empty() || !is_unfinished);
  StoreFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(LockEmptyDirectory(options, dir, publishing, &files));
  Status made = CreateStore(options, dir, publishing, fill, &files);
  if (made.ok()) SettleLocks(&files);
  // What stays all the same is refused by openings, and removed by the next call. The first failure
  // is the one to tell.
  if (!made.ok() && is_unfinished) static_cast<void>(RemoveUnfinished(files.directory.get()).ok());
  return made;
}

Status VisitProbeFiles(const StoreFiles& files,
                       const std::function<Status(const io::File& file)>& visit) {
  const auto visit_named = [&visit](int dir_fd, const char* name) {
    io::File file;
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::Open(dir_fd, name, io::Access::kRead, io::Caching::kDirect, &file));
    return visit(file);
  };
  for (const ValuePath& path : files.slots.paths()) {
    if (path.is_device()) {
      ENGINE_RACE_RETURN_IF_ERROR(visit(files.slots.value_file(path.first_file)));
    } else if (path.directory.valid()) {
      ENGINE_RACE_RETURN_IF_ERROR(visit_named(path.directory.get(), format::kMarkerName));
    }
  }
  return visit_named(files.directory.get(), format::kManifestName);
}

Status DevicesOf(const StoreFiles& files, std::vector<dev_t>* devices) {
  devices->clear();
  for (const ValuePath& path : files.slots.paths()) {
    dev_t device = 0;
    ENGINE_RACE_RETURN_IF_ERROR(
        sys::DeviceOf(files.slots.value_file(path.first_file).fd(), &device));
    devices->push_back(device);
  }
  return Status::Ok();
}

Status OpenStoreFilesToRecover(const std::string& dir, StoreFiles* files, const Options& options) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &files->directory));
  ENGINE_RACE_RETURN_IF_ERROR(LockToWrite(options, files, DirectoryLock::Purpose::kRecovery));
  bool moved = false;
  ENGINE_RACE_RETURN_IF_ERROR(OpenExisting(options, io::Access::kReadWrite, files, &moved));
  SettleLocks(files);
  return Status::Ok();
}

Status OpenStoreFilesToFollow(const std::string& dir, StoreFiles* files, const Options& options,
                              DirectoryLock::Sight* before) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &files->directory));
  const int dir_fd = files->directory.get();
  ENGINE_RACE_RETURN_IF_ERROR(RequireLockFile(dir_fd));
  ENGINE_RACE_RETURN_IF_ERROR(DirectoryLock::Watch(dir_fd, &files->lock));
  ENGINE_RACE_RETURN_IF_ERROR(files->lock.Look(before));
  if (before->writer == DirectoryLock::Writer::kOpening) {
    return Status(Code::kBusy, "a writer opens the store");
  }
  bool moved = false;
  Status opened = ReadManifest(dir_fd, &files->identity);
  if (opened.ok()) opened = OpenExisting(options, io::Access::kRead, files, &moved);
  if (opened.ok()) return opened;
  // What is not whole may be in the hands of a writer that has come.
  DirectoryLock::Sight now;
  ENGINE_RACE_RETURN_IF_ERROR(files->lock.Look(&now));
  return now == *before ? opened : Status(Code::kBusy, "a writer opens the store");
}

Status OpenStoreFilesToRead(const std::string& dir, StoreFiles* files, const Options& options) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &files->directory));
  ENGINE_RACE_RETURN_IF_ERROR(LockToRead(options, files));
  bool moved = false;
  return OpenExisting(options, io::Access::kRead, files, &moved);
}

}  // namespace engine_race

#include "engine_race/log/directory_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/log/format.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/path_marker.h"

namespace engine_race {
namespace {

Status Named(const Status& status) {
  return status.Prefixed(std::string(format::kLockName) + ": ");
}

// Whether a store or path of a format with lock files stands in the directory. An opening may have
// made one and failed afterwards; the store would not open again without its lock file.
bool NeedsLockFile(int dir_fd) {
  StoreIdentity identity;
  if (ReadManifest(dir_fd, &identity).ok()) return !identity.HasFlock();
  format::PathMarker marker;
  return ReadPathMarker(dir_fd, &marker).ok() &&
         marker.format_version != format::kFlockFormatVersion;
}

}  // namespace

bool DirectoryLock::TakenHere() const { return owner_ == ::getpid(); }

DirectoryLock::~DirectoryLock() {
  if (!TakenHere()) return;
  if (made_in_.valid()) {
    // While it is still locked. A file that cannot be removed does no harm.
    static_cast<void>(Guarded([this] {
      return NeedsLockFile(made_in_.get()) ? Status::Ok()
                                           : sys::Unlink(made_in_.get(), format::kLockName);
    }));
  }
  // Closing a descriptor alone would leave the lock to forked children.
  if (file_.fd() >= 0) sys::UnlockFile(file_.fd());
  if (flocked_.valid()) sys::Unflock(flocked_.get());
}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  const DirectoryLock former(std::move(*this));
  flocked_ = std::move(other.flocked_);
  file_ = std::move(other.file_);
  owner_ = other.owner_;
  made_in_ = std::move(other.made_in_);
  return *this;
}

Status DirectoryLock::TakeToWrite(int dir_fd, mode_t file_mode, DirectoryLock* lock) {
  // Each further try means that another opening was refused meanwhile and has removed its file.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    bool exists = false;
    UniqueFd directory;
    io::File file;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kLockName, &exists));
    ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(dir_fd, ".", O_PATH | O_DIRECTORY, 0, &directory));
    ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kLockName, io::Access::kCreate,
                                               io::Caching::kBuffered, &file, file_mode));
    const Status locked = sys::LockFile(file.fd(), sys::LockKind::kExclusive);
    if (locked.code() == Code::kNotSupported && !exists) {
      static_cast<void>(sys::Unlink(dir_fd, format::kLockName).ok());
    }
    ENGINE_RACE_RETURN_IF_ERROR(Named(locked));
    bool same = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::NamesFile(dir_fd, format::kLockName, file.fd(), &same));
    if (!same) continue;
    lock->file_ = std::move(file);
    lock->owner_ = ::getpid();
    if (!exists) lock->made_in_ = std::move(directory);
    return Status::Ok();
  }
  return Status::IOError("manifest_lock comes and goes: the store is being opened elsewhere");
}

Status DirectoryLock::TakeToRead(int dir_fd, DirectoryLock* lock) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kLockName, &exists));
  if (!exists) return Status::NotFound();
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(
      io::File::Open(dir_fd, format::kLockName, io::Access::kRead, io::Caching::kBuffered, &file));
  ENGINE_RACE_RETURN_IF_ERROR(Named(sys::LockFile(file.fd(), sys::LockKind::kShared)));
  // A refused writer may have removed the file meanwhile: its lock keeps nobody out.
  bool same = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::NamesFile(dir_fd, format::kLockName, file.fd(), &same));
  if (!same) return Status::IOError("manifest_lock was removed: the store is opened elsewhere");
  lock->file_ = std::move(file);
  lock->owner_ = ::getpid();
  return Status::Ok();
}

Status DirectoryLock::TakeFlock(int dir_fd, sys::LockKind kind) {
  UniqueFd opened;
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(dir_fd, ".", O_RDONLY | O_DIRECTORY, 0, &opened));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Flock(opened.get(), kind, &supported));
  flocked_ = std::move(opened);
  owner_ = ::getpid();
  return Status::Ok();
}

void DirectoryLock::Settle() {
  made_in_.Reset();
  if (flocked_.valid()) sys::Unflock(flocked_.get());
  flocked_.Reset();
}

}  // namespace engine_race

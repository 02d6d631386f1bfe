#include "engine_race/io/file.h"

#include <fcntl.h>

#include <utility>

#include "engine_race/base/guarded.h"

namespace engine_race::io {
namespace {

int FlagsOf(Access access) {
  switch (access) {
    case Access::kRead:
      return O_RDONLY;
    case Access::kReadWrite:
      return O_RDWR;
    case Access::kCreate:
      return O_RDWR | O_CREAT;
    case Access::kReplace:
      return O_RDWR | O_CREAT | O_EXCL;
    case Access::kExclusiveDevice:
      return O_RDWR | O_EXCL;
  }
  return O_RDONLY;
}

}  // namespace

// Calls `open` with O_DIRECT if that is asked for and the file system takes it, else without.
template <typename OpenFn>
Status File::OpenCached(Caching caching, const OpenFn& open) {
  if (caching == Caching::kDirect) {
    Status status = open(O_DIRECT);
    direct_ = status.ok();
    // Any other failure is returned: a direct log may not become buffered by chance.
    if (status.code() != Code::kNotSupported) return status;
  }
  return open(0);
}

Status File::Open(int dir_fd, const std::string& name, Access access, Caching caching, File* file,
                  mode_t mode) {
  File opened;
  opened.name_ = name;
  // A blocking open of a pipe of this name would wait until the pipe's other end is opened.
  const int flags = FlagsOf(access) | O_NOFOLLOW | O_NONBLOCK;
  ENGINE_RACE_RETURN_IF_ERROR(opened.OpenCached(caching, [&](int direct) {
    // At each try: an open that fails because of O_DIRECT has made the file nevertheless.
    if (access == Access::kReplace) ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, name));
    return sys::OpenAt(dir_fd, name, flags | direct, mode, &opened.fd_);
  }));
  bool regular = false;
  uint64_t link_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(opened.Named(sys::RegularFile(opened.fd(), &regular, &link_count)));
  if (!regular) return Status::Corruption(name + " is not a regular file");
  // With the flag set io_uring would refuse a read instead of waiting for it.
  ENGINE_RACE_RETURN_IF_ERROR(opened.Named(sys::ClearNonBlocking(opened.fd())));
  *file = std::move(opened);
  return Status::Ok();
}

Status File::OpenPath(const std::string& path, Access access, Caching caching, File* file,
                      bool* in_use) {
  if (in_use != nullptr) *in_use = false;
  File opened;
  opened.name_ = path;
  const int flags = FlagsOf(access) | (access == Access::kRead ? O_NONBLOCK : 0);
  ENGINE_RACE_RETURN_IF_ERROR(opened.OpenCached(caching, [&](int direct) {
    return sys::OpenAt(AT_FDCWD, path, flags | direct, kPrivateMode, &opened.fd_, in_use);
  }));
  *file = std::move(opened);
  return Status::Ok();
}

Status File::Named(Status status) const {
  if (status.ok()) return status;
  return status.Prefixed(name_ + ": ");
}

Status File::Read(void* buffer, size_t size, uint64_t offset) const {
  Status status = sys::PreadFull(fd_.get(), buffer, size, offset);
  if (!status.ok()) [[unlikely]] {
    return Named(std::move(status));
  }
  return status;
}

Status File::ReadSome(void* buffer, size_t size, uint64_t offset, size_t* read_bytes) const {
  return Named(sys::Pread(fd_.get(), buffer, size, offset, read_bytes));
}

Status File::Write(const void* buffer, size_t size, uint64_t offset) const {
  return Named(sys::PwriteFull(fd_.get(), buffer, size, offset));
}

Status File::Sync() const { return Named(sys::Fsync(fd_.get())); }

Status File::DataSync() const { return Named(sys::Fdatasync(fd_.get())); }

Status File::Punch(uint64_t offset, uint64_t end, bool* supported) const {
  *supported = true;
  if (offset >= end) return Status::Ok();
  return Named(sys::PunchHole(fd_.get(), offset, end - offset, supported));
}

Status File::Truncate(uint64_t size_bytes) const {
  return Named(sys::Truncate(fd_.get(), size_bytes));
}

Status File::Reserve(bool keep_size, uint64_t offset, uint64_t size, bool* supported) const {
  return Named(sys::Fallocate(fd_.get(), keep_size, offset, size, supported));
}

Status File::Size(uint64_t* size_bytes) const {
  return Named(sys::FileSize(fd_.get(), size_bytes));
}

Status ReplaceFile(int dir_fd, const char* temp_name, const char* name, std::string_view content,
                   mode_t mode) {
  File file;
  ENGINE_RACE_RETURN_IF_ERROR(
      File::Open(dir_fd, temp_name, Access::kReplace, Caching::kBuffered, &file, mode));
  ENGINE_RACE_RETURN_IF_ERROR(file.Write(content.data(), content.size(), 0));
  ENGINE_RACE_RETURN_IF_ERROR(file.Sync());
  ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(dir_fd, temp_name, name));
  return sys::Fsync(dir_fd);
}

Status ReadError(const File& file, int error) noexcept {
  return GuardedAs(Code::kIOError, [&] {
    return error != 0 ? Status::FromErrno("read " + file.name(), error, sys::PathOf(file.fd()))
                      : Status::IOError(file.name() + " ends early");
  });
}

}  // namespace engine_race::io

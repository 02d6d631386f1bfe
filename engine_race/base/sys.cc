#include "engine_race/base/sys.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <system_error>

#include "engine_race/base/checksum.h"
#include "engine_race/base/retry.h"
#include "engine_race/base/sys_pwrite.h"

namespace engine_race {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void UniqueFd::Reset() {
  // Every write has been checked by then; close has nothing left to report.
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace sys {
namespace {

// What a failed call has left in errno, about an open file or directory.
Status Failed(const char* call, int fd) { return Status::FromErrno(call, errno, PathOf(fd)); }

// The same about a name below a directory.
Status FailedAt(const std::string& what, int dir_fd, const std::string& name) {
  return Status::FromErrno(what, errno, PathOf(dir_fd, name));
}

constexpr char kLockHeld[] = "the store is open elsewhere: its lock is held";

// Sets or ends the open-file-description lock of a whole file. 0, or -1 with errno.
int SetFileLock(int fd, short type) {  // NOLINT(google-runtime-int): the member's type
  // From offset 0, of length 0: all of the file, however it grows.
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return Retry([&] { return ::fcntl(fd, F_OFD_SETLK, &lock); });
}

}  // namespace

std::string PathOf(int fd) {
  const int kept = errno;
  std::array<char, PATH_MAX> name;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), name.data(), name.size());
  errno = kept;
  // A pipe or a socket has a text there that is no path.
  return size > 0 && name[0] == '/' ? std::string(name.data(), static_cast<size_t>(size)) : "";
}

std::string PathOf(int dir_fd, const std::string& name) {
  if (dir_fd == AT_FDCWD || name.starts_with('/')) return name;
  const std::string directory = PathOf(dir_fd);
  return directory.empty() || name == "." ? directory : directory + "/" + name;
}

Status OpenAt(int dir_fd, const std::string& name, int flags, mode_t mode, UniqueFd* fd,
              bool* in_use) {
  if (in_use != nullptr) *in_use = false;
  const int result = Retry([&] { return ::openat(dir_fd, name.c_str(), flags | O_CLOEXEC, mode); });
  if (result < 0) {
    if (errno == EINVAL && (flags & O_DIRECT) != 0) {
      return Status::NotSupported("open " + name + ": the file system refuses O_DIRECT")
          .At(PathOf(dir_fd, name), EINVAL);
    }
    if (errno == EBUSY && (flags & O_EXCL) != 0) {
      if (in_use != nullptr) *in_use = true;
      return Status::IOError("open " + name + ": the device is mounted or in use")
          .At(PathOf(dir_fd, name), EBUSY);
    }
    if (errno == ELOOP && (flags & O_NOFOLLOW) != 0) {
      return Status::Corruption(name +
                                " is a symlink, and files of a store are not followed elsewhere: "
                                "Options::paths puts values on other disks")
          .At(PathOf(dir_fd, name), ELOOP);
    }
    return FailedAt("open " + name, dir_fd, name);
  }
  *fd = UniqueFd(result);
  return Status::Ok();
}

Status Pread(int fd, void* buffer, size_t size, uint64_t offset, size_t* read_bytes) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = Retry([&] {
      return ::pread(fd, static_cast<char*>(buffer) + done, size - done,
                     static_cast<off_t>(offset + done));
    });
    if (n < 0) return Failed("pread", fd);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  *read_bytes = done;
  return Status::Ok();
}

Status PreadFull(int fd, void* buffer, size_t size, uint64_t offset) {
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Pread(fd, buffer, size, offset, &read_bytes));
  if (read_bytes == size) return Status::Ok();
  return Status::IOError("pread: the file ends at " + std::to_string(offset + read_bytes) + ", " +
                         std::to_string(size - read_bytes) + " bytes early");
}

Status PwriteFull(int fd, const void* buffer, size_t size, uint64_t offset) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckFileSizeLimit(offset + size));
  return PwriteBelowLimit(fd, buffer, size, offset);
}

Status PwriteBelowLimit(int fd, const void* buffer, size_t size, uint64_t offset) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = Retry([&] {
      return ::pwrite(fd, static_cast<const char*>(buffer) + done, size - done,
                      static_cast<off_t>(offset + done));
    });
    if (n < 0) return Failed("pwrite", fd);
    if (n == 0) return Status::IOError("pwrite: nothing was written");
    done += static_cast<size_t>(n);
  }
  return Status::Ok();
}

Status Fallocate(int fd, bool keep_size, uint64_t offset, uint64_t size, bool* supported) {
  *supported = true;
  if (!keep_size) ENGINE_RACE_RETURN_IF_ERROR(CheckFileSizeLimit(offset + size));
  const int result = Retry([&] {
    return ::fallocate(fd, keep_size ? FALLOC_FL_KEEP_SIZE : 0, static_cast<off_t>(offset),
                       static_cast<off_t>(size));
  });
  if (result == 0) return Status::Ok();
  if (errno == EOPNOTSUPP || errno == ENOSYS) {
    *supported = false;
    return Status::Ok();
  }
  return Failed("fallocate", fd);
}

Status PunchHole(int fd, uint64_t offset, uint64_t size, bool* supported) {
  *supported = true;
  const int result = Retry([&] {
    return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(size));
  });
  if (result == 0) return Status::Ok();
  if (errno == EOPNOTSUPP || errno == ENOSYS) {
    *supported = false;
    return Status::Ok();
  }
  return Failed("fallocate", fd);
}

bool MayHoldData(int fd, uint64_t offset, uint64_t size) {
  const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  // ENXIO: a hole up to the end of the file.
  if (data < 0) return errno != ENXIO;
  return static_cast<uint64_t>(data) < offset + size;
}

Status Truncate(int fd, uint64_t size) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckFileSizeLimit(size));
  if (Retry([&] { return ::ftruncate(fd, static_cast<off_t>(size)); }) != 0) {
    return Failed("ftruncate", fd);
  }
  return Status::Ok();
}

Status CloneFile(int from, int to, bool* supported) {
  *supported = true;
  if (Retry([&] { return ::ioctl(to, FICLONE, from); }) == 0) return Status::Ok();
  switch (errno) {
    case EXDEV:
    case EINVAL:
    case EOPNOTSUPP:
    case ENOTTY:
    case ENOSYS:
      *supported = false;
      return Status::Ok();
    default:
      return Failed("ioctl FICLONE", to);
  }
}

Status Fsync(int fd) {
  // Not retried after any error: the kernel may have dropped what could not be written.
  if (::fsync(fd) != 0) return Failed("fsync", fd);
  return Status::Ok();
}

Status Fdatasync(int fd) {
  // Not retried, as above.
  if (::fdatasync(fd) != 0) return Failed("fdatasync", fd);
  return Status::Ok();
}

Status FileSize(int fd, uint64_t* size_bytes) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return Failed("fstat", fd);
  *size_bytes = static_cast<uint64_t>(info.st_size);
  return Status::Ok();
}

Status RegularFile(int fd, bool* regular, uint64_t* link_count) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return Failed("fstat", fd);
  *regular = S_ISREG(info.st_mode);
  *link_count = info.st_nlink;
  return Status::Ok();
}

Status DeviceOf(int fd, dev_t* device) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return Failed("fstat", fd);
  *device = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_dev;
  return Status::Ok();
}

Status ClearNonBlocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return Failed("fcntl", fd);
  }
  return Status::Ok();
}

Status SameFile(int fd, int other_fd, bool* same) {
  struct stat info;
  struct stat other;
  if (::fstat(fd, &info) != 0 || ::fstat(other_fd, &other) != 0) {
    return Failed("fstat", fd);
  }
  *same = info.st_dev == other.st_dev && info.st_ino == other.st_ino;
  return Status::Ok();
}

Status NamesFile(int dir_fd, const std::string& name, int fd, bool* same) {
  struct stat named;
  struct stat open;
  *same = false;
  if (::fstatat(dir_fd, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status::Ok() : FailedAt("stat " + name, dir_fd, name);
  }
  if (::fstat(fd, &open) != 0) return Failed("fstat", fd);
  *same = named.st_dev == open.st_dev && named.st_ino == open.st_ino;
  return Status::Ok();
}

Status Exists(int dir_fd, const std::string& name, bool* exists, uint64_t* link_count) {
  struct stat info;
  *exists = ::fstatat(dir_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!*exists && errno != ENOENT) return FailedAt("stat " + name, dir_fd, name);
  if (link_count != nullptr) *link_count = *exists && S_ISREG(info.st_mode) ? info.st_nlink : 0;
  return Status::Ok();
}

bool MayOpen(int dir_fd, const std::string& name, bool to_write) {
  return ::faccessat(dir_fd, name.c_str(), to_write ? R_OK | W_OK : R_OK, AT_EACCESS) == 0;
}

Status AllocatedBytes(int dir_fd, const std::string& name, uint64_t* bytes) {
  *bytes = 0;
  struct stat info;
  if (::fstatat(dir_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status::Ok() : FailedAt("stat " + name, dir_fd, name);
  }
  *bytes = static_cast<uint64_t>(info.st_blocks) * 512;
  return Status::Ok();
}

Status Rename(int dir_fd, const std::string& from, const std::string& to) {
  if (::renameat(dir_fd, from.c_str(), dir_fd, to.c_str()) != 0) {
    return FailedAt("rename " + from + " to " + to, dir_fd, from);
  }
  return Status::Ok();
}

Status RenameToNew(int dir_fd, const std::string& from, const std::string& to) {
  if (::renameat2(dir_fd, from.c_str(), dir_fd, to.c_str(), RENAME_NOREPLACE) == 0) {
    return Status::Ok();
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return FailedAt("rename " + from + " to " + to, dir_fd, from);
  }
  // The file system cannot do both in one step.
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(Exists(dir_fd, to, &exists));
  return exists ? Status::FromErrno("rename " + from + " to " + to, EEXIST, PathOf(dir_fd, to))
                : Rename(dir_fd, from, to);
}

Status Unlink(int dir_fd, const std::string& name) {
  if (::unlinkat(dir_fd, name.c_str(), 0) == 0 || errno == ENOENT) return Status::Ok();
  return FailedAt("unlink " + name, dir_fd, name);
}

uint32_t BootId() {
  UniqueFd fd;
  std::array<char, 64> text;
  size_t read_bytes = 0;
  const bool known = OpenAt(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY, 0, &fd).ok() &&
                     Pread(fd.get(), text.data(), text.size(), 0, &read_bytes).ok() &&
                     read_bytes > 0;
  if (!known) return 0;
  const auto id = static_cast<uint32_t>(Hash64(text.data(), read_bytes, 0) >> 32);
  return id == 0 ? 1 : id;
}

Status RandomWord(uint64_t* word) {
  const ssize_t n = Retry([&] { return ::getrandom(word, sizeof(*word), 0); });
  if (n == static_cast<ssize_t>(sizeof(*word))) return Status::Ok();
  return n < 0 ? Status::FromErrno("getrandom", errno)
               : Status::IOError("getrandom: too few bytes");
}

Status LockFile(int fd, LockKind kind) {
  if (SetFileLock(fd, kind == LockKind::kShared ? F_RDLCK : F_WRLCK) == 0) return Status::Ok();
  switch (errno) {
    case EAGAIN:
    case EACCES:
      return Status::IOError(kLockHeld).At(PathOf(fd), EAGAIN);
    case EINVAL:
    case ENOSYS:
    case ENOLCK:
    case EOPNOTSUPP:
      return Status::NotSupported(
          "a store needs open-file-description locks, which this file system or kernel does not "
          "have: " +
          std::generic_category().message(errno));
    default:
      return Failed("fcntl F_OFD_SETLK", fd);
  }
}

void UnlockFile(int fd) { static_cast<void>(SetFileLock(fd, F_UNLCK)); }

Status Duplicate(int fd, UniqueFd* copy) {
  const int made = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (made < 0) return Failed("fcntl F_DUPFD_CLOEXEC", fd);
  *copy = UniqueFd(made);
  return Status::Ok();
}

Status HasExclusiveLock(int fd, bool* held) {
  // Asks what would be in the way of a shared lock.
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0) return Failed("fcntl F_OFD_GETLK", fd);
  *held = lock.l_type != F_UNLCK;
  return Status::Ok();
}

Status CheckFileSizeLimit(uint64_t size_bytes) {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return Status::FromErrno("getrlimit", errno);
  if (limit.rlim_cur == RLIM_INFINITY || size_bytes <= limit.rlim_cur) return Status::Ok();
  return Status::Full("a file may not grow to " + std::to_string(size_bytes) +
                      " bytes: RLIMIT_FSIZE is " + std::to_string(limit.rlim_cur))
      .At({}, EFBIG);
}

}  // namespace sys
}  // namespace engine_race

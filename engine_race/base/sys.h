// Checked system calls on files: EINTR is retried, short transfers are continued, errno becomes a
// Status that names the call and the path. Nothing else in the library calls them directly.
//
// Stateless; every function is thread-safe as far as its system call is.
#ifndef ENGINE_RACE_BASE_SYS_H_
#define ENGINE_RACE_BASE_SYS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race {

// Owns a file descriptor; movable.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Reset();
  // Gives the descriptor away, unclosed.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

namespace sys {

// Where an open file or directory is, without symlinks; empty where /proc does not say. Leaves
// errno as it was.
std::string PathOf(int fd);
// Where `name` below a directory is, or AT_FDCWD: then it is `name`.
std::string PathOf(int dir_fd, const std::string& name);

// Opens `name` below the directory `dir_fd` (or AT_FDCWD), with O_CLOEXEC added to `flags`.
// kNotSupported where the file system refuses O_DIRECT, kCorruption for a symlink where `flags`
// have O_NOFOLLOW. *in_use, when given, says whether it failed because a device asked for with
// O_EXCL is mounted or held by somebody else.
Status OpenAt(int dir_fd, const std::string& name, int flags, mode_t mode, UniqueFd* fd,
              bool* in_use = nullptr);
// A second descriptor of what `fd` has open, with O_CLOEXEC.
Status Duplicate(int fd, UniqueFd* copy);
// Reads exactly `size` bytes at `offset`; *read_bytes is less only at the end of the file.
Status Pread(int fd, void* buffer, size_t size, uint64_t offset, size_t* read_bytes);
// Pread that answers kIOError for a file that ends early.
Status PreadFull(int fd, void* buffer, size_t size, uint64_t offset);
// Writes exactly `size` bytes at `offset`. Growth past RLIMIT_FSIZE is kFull, not SIGXFSZ.
Status PwriteFull(int fd, const void* buffer, size_t size, uint64_t offset);
// Reserves [offset, offset + size) on the device; grows the file unless `keep_size`. Where the
// file system has no such call, *supported is false and nothing has happened.
Status Fallocate(int fd, bool keep_size, uint64_t offset, uint64_t size, bool* supported);
// Gives the space of [offset, offset + size) back, below the file's size: it reads as zeros then.
// Where the file system has no such call, *supported is false and nothing has happened.
Status PunchHole(int fd, uint64_t offset, uint64_t size, bool* supported);
// Whether bytes [offset, offset + size) may have been written. False: they are a hole, or only
// reserved. May move the file's offset.
bool MayHoldData(int fd, uint64_t offset, uint64_t size);
Status Truncate(int fd, uint64_t size);
// Makes the whole file `to` share the blocks of `from`, by reflink. Where the file system or both
// together cannot, *supported is false and nothing has happened.
Status CloneFile(int from, int to, bool* supported);
Status Fsync(int fd);
// Fsync without the metadata that reading the data back does not need.
Status Fdatasync(int fd);
Status FileSize(int fd, uint64_t* size_bytes);
// Whether an open file is a regular one, and by how many names (hard links) it is known.
Status RegularFile(int fd, bool* regular, uint64_t* link_count);
// The block device that an open file lies on, or that it is.
Status DeviceOf(int fd, dev_t* device);
// Makes later operations of this open file wait, as those of regular files do, after an open with
// O_NONBLOCK.
Status ClearNonBlocking(int fd);
// Whether two descriptors are of one file or directory.
Status SameFile(int fd, int other_fd, bool* same);
// Whether `name` below the directory is still the open file.
Status NamesFile(int dir_fd, const std::string& name, int fd, bool* same);
// Whether the directory has the name, be it of a symlink that leads nowhere. *link_count, which may
// be null, gets the number of names (hard links) of a regular file, or 0.
Status Exists(int dir_fd, const std::string& name, bool* exists, uint64_t* link_count = nullptr);
// Whether this process has the rights to open the file, and to write to it.
bool MayOpen(int dir_fd, const std::string& name, bool to_write);
// Bytes that the file takes on the device; 0 for a missing file and for one that is only a hole.
Status AllocatedBytes(int dir_fd, const std::string& name, uint64_t* bytes);
Status Rename(int dir_fd, const std::string& from, const std::string& to);
// Rename that replaces no file: kIOError with EEXIST where `to` is there.
Status RenameToNew(int dir_fd, const std::string& from, const std::string& to);
// Removes a name, never what a symlink of that name leads to. A missing one is no error.
Status Unlink(int dir_fd, const std::string& name);

// Opens a directory, kNotFound when it is missing. With `create` it and its missing parents are
// made with `mode`, less the umask, and each name is durable before the next one is made.
// kInvalidArgument where that would make a directory among the devices of /dev, or needs the `..`
// of a missing one.
Status OpenDirectory(const std::string& path, bool create, UniqueFd* fd, mode_t mode = 0700);
// Makes the name of the directory, open as `fd`, durable in the directory that holds it.
Status SyncNameOf(const std::string& path, int fd);
// kInvalidArgument when the open directory `path` lies in the file system of /dev, whose content
// is gone with the machine's power. /dev/shm is not meant: nobody takes that for a disk.
Status RefuseAmongDevices(const std::string& path, int fd);
Status ListDirectory(int dir_fd, std::vector<std::string>* names);

// Tells this boot of the machine from every other; 0 when the system does not say.
uint32_t BootId();
// A random number from the kernel.
Status RandomWord(uint64_t* word);

enum class LockKind { kShared, kExclusive };
// Takes the open-file-description lock of a whole file. `fd` must be readable for a shared lock and
// writable for an exclusive one. The kernel holds the lock until the last descriptor of this open
// is closed, those of forked children included. Other opens of the file do not end it. kIOError
// with EAGAIN when somebody else's lock is in the way, kNotSupported where the kernel or the file
// system has no such locks.
Status LockFile(int fd, LockKind kind);
// Ends the lock, although forked children have descriptors of this open. Nothing happens where
// there is no lock.
void UnlockFile(int fd);
// Whether somebody holds the exclusive lock of an open file by LockFile. It takes no lock and does
// not wait. `fd` need not be writable.
Status HasExclusiveLock(int fd, bool* held);
// When the content of an open file was changed last.
Status ChangedAt(int fd, uint64_t* ns);
// kFull when a file may not grow to `size_bytes` under this process's RLIMIT_FSIZE.
Status CheckFileSizeLimit(uint64_t size_bytes);

}  // namespace sys
}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_SYS_H_

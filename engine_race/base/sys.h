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

 private:
  int fd_ = -1;
};

namespace sys {

// Opens `name` below the directory `dir_fd` (or AT_FDCWD), with O_CLOEXEC added to `flags`.
// kNotSupported where the file system refuses O_DIRECT. *in_use, when given, says whether it failed
// because a device asked for with O_EXCL is mounted or held by somebody else.
Status OpenAt(int dir_fd, const std::string& name, int flags, mode_t mode, UniqueFd* fd,
              bool* in_use = nullptr);
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
// The next offset at or after `offset` that may hold something else than zeros, at most `end`.
Status NextData(int fd, uint64_t offset, uint64_t end, uint64_t* data_offset);
Status Truncate(int fd, uint64_t size);
Status Fsync(int fd);
// Fsync without the metadata that reading the data back does not need.
Status Fdatasync(int fd);
Status FileSize(int fd, uint64_t* size_bytes);
// Makes directory `path` and its missing parents, and opens it.
Status OpenDirectory(const std::string& path, bool create, UniqueFd* fd);
// Whether two descriptors are of one file or directory.
Status SameFile(int fd, int other_fd, bool* same);
Status Exists(int dir_fd, const std::string& name, bool* exists);
// Bytes that the file takes on the device; 0 for a missing file and for one that is only a hole.
Status AllocatedBytes(int dir_fd, const std::string& name, uint64_t* bytes);
Status ListDirectory(const std::string& path, std::vector<std::string>* names);
Status Rename(int dir_fd, const std::string& from, const std::string& to);
// Asks for [0, size) to be read into the page cache; advice only.
void Prefetch(int fd, uint64_t size);
// Tells this boot of the machine from every other; 0 when the system does not say.
uint32_t BootId();
// A random number from the kernel.
Status RandomWord(uint64_t* word);
// Takes the exclusive lock of an open file or directory, or answers kIOError when it is held.
Status LockExclusive(int fd);
// kFull when a file may not grow to `size_bytes` under this process's RLIMIT_FSIZE.
Status CheckFileSizeLimit(uint64_t size_bytes);

}  // namespace sys
}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_SYS_H_

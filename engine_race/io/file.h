// A file of the store: opened once, direct or buffered for as long as it is open.
//
// Files of a store are regular files in its own directories. A symlink, a pipe or a device of such
// a name is kCorruption. If a store followed it, any user who may write to one of its directories
// could have it write to files elsewhere.
//
// Owner of its descriptor; movable. Calls are thread-safe. Errors name the file.
#ifndef ENGINE_RACE_IO_FILE_H_
#define ENGINE_RACE_IO_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"

namespace engine_race::io {

enum class Access {
  kRead,
  kReadWrite,
  kCreate,   // made when it is missing
  kReplace,  // made anew: a file of that name is removed first, and another one's is never opened
  // kReadWrite of a block device that nobody else may have, neither mounted nor as part of another;
  // for OpenPath alone.
  kExclusiveDevice,
};
enum class Caching { kBuffered, kDirect };

// The mode of a new file, unless the caller gives another.
inline constexpr mode_t kPrivateMode = 0600;

class File {
 public:
  File() = default;

  // A regular file of the directory. One that is made gets `mode`, less the umask. Asked for
  // kDirect, a file system that refuses O_DIRECT gives a buffered file; direct() tells.
  static Status Open(int dir_fd, const std::string& name, Access access, Caching caching,
                     File* file, mode_t mode = kPrivateMode);

  // Opens any kind of file, symlinks followed. `in_use`, which may be null, is as in sys::OpenAt.
  static Status OpenPath(const std::string& path, Access access, Caching caching, File* file,
                         bool* in_use = nullptr);

  // Reads exactly `size` bytes; a file that ends early is kIOError. On a direct file address,
  // size and offset are multiples of kIoAlignment.
  Status Read(void* buffer, size_t size, uint64_t offset) const;
  // Read that stops at the end of the file and says where.
  Status ReadSome(void* buffer, size_t size, uint64_t offset, size_t* read_bytes) const;
  Status Write(const void* buffer, size_t size, uint64_t offset) const;
  Status Sync() const;
  // Sync without the metadata that reading the data back does not need.
  Status DataSync() const;
  // Makes [offset, end) read as zeros and gives its space back. Where the file system has no such
  // call, *supported is false and nothing has happened. Offsets are multiples of kIoAlignment.
  Status Punch(uint64_t offset, uint64_t end, bool* supported) const;
  // Whether bytes [offset, end) may have been written. False: they are a hole, or only reserved.
  bool MayHoldData(uint64_t offset, uint64_t end) const {
    return sys::MayHoldData(fd_.get(), offset, end - offset);
  }
  Status Truncate(uint64_t size_bytes) const;
  // Reserves space, as sys::Fallocate.
  Status Reserve(bool keep_size, uint64_t offset, uint64_t size, bool* supported) const;
  Status Size(uint64_t* size_bytes) const;

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  bool direct() const { return direct_; }
  const std::string& name() const { return name_; }
  // Errors use this name from now on, where the file's own name is not enough.
  void set_name(std::string name) { name_ = std::move(name); }

 private:
  template <typename OpenFn>
  Status OpenCached(Caching caching, const OpenFn& open);
  Status Named(Status status) const;

  UniqueFd fd_;
  std::string name_;
  bool direct_ = false;
};

// Replaces file `name` by one with `content`, durably and at once: writes and syncs `temp_name`,
// renames that and syncs the directory. The new file gets `mode`. kFull, kIOError: a failure before
// the rename leaves the old file, and may leave `temp_name`. After one of the last sync either file
// may be there later.
Status ReplaceFile(int dir_fd, const char* temp_name, const char* name, std::string_view content,
                   mode_t mode);

// The status of an asynchronous read of `file` that failed with `error`, or came out short if that
// is 0. Where memory is refused it has no message.
Status ReadError(const File& file, int error) noexcept;

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_FILE_H_

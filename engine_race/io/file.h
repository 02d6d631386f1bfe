// A file of the store: opened once, direct or buffered for as long as it is open.
//
// Owner of its descriptor; movable. Calls are thread-safe. Errors name the file.
#ifndef ENGINE_RACE_IO_FILE_H_
#define ENGINE_RACE_IO_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"

namespace engine_race::io {

enum class Access {
  kRead,
  kReadWrite,
  kCreate,
  // kReadWrite of a block device that nobody else may have, neither mounted nor as part of another.
  kExclusiveDevice,
};
enum class Caching { kBuffered, kDirect };

class File {
 public:
  File() = default;

  // kCreate makes the file when it is missing. Asked for kDirect, a file system that refuses
  // O_DIRECT gives a buffered file; direct() tells. `in_use`, which may be null, as of sys::OpenAt.
  static Status Open(int dir_fd, const std::string& name, Access access, Caching caching,
                     File* file, bool* in_use = nullptr);

  // Reads exactly `size` bytes; a file that ends early is kIOError. On a direct file address,
  // size and offset are multiples of kIoAlignment.
  Status Read(void* buffer, size_t size, uint64_t offset) const;
  // Read that stops at the end of the file and says where.
  Status ReadSome(void* buffer, size_t size, uint64_t offset, size_t* read_bytes) const;
  Status Write(const void* buffer, size_t size, uint64_t offset) const;
  Status Sync() const;
  // Sync without the metadata that reading the data back does not need.
  Status DataSync() const;
  // Makes [offset, end) read as zeros; gives the space back where the file system can. Offsets are
  // multiples of kIoAlignment.
  Status Erase(uint64_t offset, uint64_t end) const;
  Status Truncate(uint64_t size_bytes) const;
  // Reserves space, as sys::Fallocate.
  Status Reserve(bool keep_size, uint64_t offset, uint64_t size, bool* supported) const;
  Status Size(uint64_t* size_bytes) const;

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  bool direct() const { return direct_; }
  const std::string& name() const { return name_; }
  // What errors call it from here on, where its name alone does not tell.
  void set_name(std::string name) { name_ = std::move(name); }

 private:
  Status Named(Status status) const;

  UniqueFd fd_;
  std::string name_;
  bool direct_ = false;
};

// What to say of an asynchronous read of `file` that failed with `error`, or, when that is 0, came
// out short. Without memory for the words it says it without.
Status ReadError(const File& file, int error) noexcept;

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_FILE_H_

#include "engine_race/io/file.h"

#include <fcntl.h>

#include <algorithm>
#include <new>
#include <utility>

#include "engine_race/base/memory.h"

namespace engine_race::io {
namespace {

int FlagsOf(Access access) {
  switch (access) {
    case Access::kRead:
      // A pipe in the file's place would hold the open up until somebody writes to it.
      return O_RDONLY | O_NONBLOCK;
    case Access::kReadWrite:
      return O_RDWR;
    case Access::kCreate:
      return O_RDWR | O_CREAT;
    case Access::kExclusiveDevice:
      return O_RDWR | O_EXCL;
  }
  return O_RDONLY;
}

}  // namespace

Status File::Open(int dir_fd, const std::string& name, Access access, Caching caching, File* file,
                  bool* in_use) {
  constexpr mode_t kMode = 0644;
  File opened;
  opened.name_ = name;
  if (caching == Caching::kDirect) {
    Status status =
        sys::OpenAt(dir_fd, name, FlagsOf(access) | O_DIRECT, kMode, &opened.fd_, in_use);
    // Any other failure is the caller's: a log that is direct may not become buffered by chance.
    if (!status.ok() && status.code() != Code::kNotSupported) return status;
    opened.direct_ = status.ok();
  }
  if (!opened.fd_.valid()) {
    ENGINE_RACE_RETURN_IF_ERROR(
        sys::OpenAt(dir_fd, name, FlagsOf(access), kMode, &opened.fd_, in_use));
  }
  *file = std::move(opened);
  return Status::Ok();
}

Status File::Named(Status status) const {
  if (status.ok()) return status;
  return Status(status.code(), name_ + ": " + status.message());
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

Status File::Erase(uint64_t offset, uint64_t end) const {
  if (offset >= end) return Status::Ok();
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(Named(sys::PunchHole(fd_.get(), offset, end - offset, &supported)));
  if (supported) return Status::Ok();
  constexpr uint64_t kPieceBytes = 64 * 1024;
  Region zeros;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kPieceBytes, /*huge_pages=*/false, &zeros));
  while (true) {
    uint64_t data_offset = 0;
    ENGINE_RACE_RETURN_IF_ERROR(Named(sys::NextData(fd_.get(), offset, end, &data_offset)));
    offset = data_offset - data_offset % kIoAlignment;
    if (offset >= end) return Status::Ok();
    const uint64_t bytes = std::min(kPieceBytes, end - offset);
    ENGINE_RACE_RETURN_IF_ERROR(Write(zeros.data(), bytes, offset));
    offset += bytes;
  }
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

Status ReadError(const File& file, int error) noexcept {
  try {
    return error != 0 ? Status::FromErrno("read " + file.name(), error)
                      : Status::IOError(file.name() + " ends early");
  } catch (const std::bad_alloc&) {
    return Status(Code::kIOError, {});
  }
}

}  // namespace engine_race::io

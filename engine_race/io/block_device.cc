#include "engine_race/io/block_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine_race/base/is_zero.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"

namespace engine_race::io {
namespace {

constexpr uint64_t kSignatureBytes = uint64_t{1} << 20;

}  // namespace

Status BlockDevice::Is(const std::string& path, bool* is_device) {
  struct stat info;
  *is_device = false;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Status::Ok();
    return Status::FromErrno("stat " + path, errno, path);
  }
  *is_device = S_ISBLK(info.st_mode);
  return Status::Ok();
}

Status BlockDevice::Open(const std::string& path, bool read_only, BlockDevice* device,
                         bool* in_use) {
  if (in_use != nullptr) *in_use = false;
  // Before O_EXCL, which means something else, or nothing, on any other kind of file.
  bool is_device = false;
  ENGINE_RACE_RETURN_IF_ERROR(Is(path, &is_device));
  if (!is_device) return Status::InvalidArgument(path + ": not a block device");
  BlockDevice opened;
  ENGINE_RACE_RETURN_IF_ERROR(File::OpenPath(path,
                                             read_only ? Access::kRead : Access::kExclusiveDevice,
                                             Caching::kDirect, &opened.file, in_use));
  // O_EXCL keeps other writers out. The lock also keeps readers and writers apart.
  const Status locked = sys::LockFile(
      opened.file.fd(), read_only ? sys::LockKind::kShared : sys::LockKind::kExclusive);
  if (locked.code() == Code::kIOError) {
    if (in_use != nullptr) *in_use = true;
    return Status::IOError("open " + path + ": the device is mounted or in use").At(path, EBUSY);
  }
  if (!opened.file.direct()) return Status::NotSupported(path + ": the device refuses O_DIRECT");
  const int fd = opened.file.fd();
  int sector_bytes = 0;
  if (::ioctl(fd, BLKGETSIZE64, &opened.size_bytes) != 0) {
    return Status::FromErrno("BLKGETSIZE64 " + path, errno, path);
  }
  if (::ioctl(fd, BLKSSZGET, &sector_bytes) != 0) {
    return Status::FromErrno("BLKSSZGET " + path, errno, path);
  }
  opened.sector_bytes = static_cast<uint32_t>(sector_bytes);
  if (opened.sector_bytes > kIoAlignment) {
    return Status::InvalidArgument(path + ": its sectors of " +
                                   std::to_string(opened.sector_bytes) +
                                   " bytes are larger than a value");
  }
  *device = std::move(opened);
  return Status::Ok();
}

Status BlockDevice::HoldsSomething(bool* holds) const {
  Region buffer;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kSignatureBytes, /*huge_pages=*/false, &buffer));
  // The size is a multiple of the sector size, so offset and size are aligned for direct reads.
  const uint64_t piece_bytes = std::min(size_bytes, kSignatureBytes);
  *holds = false;
  for (const uint64_t offset : {uint64_t{0}, size_bytes - piece_bytes}) {
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(buffer.data(), piece_bytes, offset));
    if (!IsZero(buffer.data(), piece_bytes)) *holds = true;
  }
  return Status::Ok();
}

}  // namespace engine_race::io

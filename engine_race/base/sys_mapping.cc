#include "engine_race/base/sys_mapping.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <cerrno>

#include "engine_race/base/retry.h"
#include "engine_race/base/sys.h"

namespace engine_race::sys {
namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;
#endif

}  // namespace

Status MappedStoresKeepSpace(int fd, bool* keep, uint64_t* type_magic) {
  struct statfs info;
  if (::fstatfs(fd, &info) != 0) return Status::FromErrno("fstatfs", errno, PathOf(fd));
  *type_magic = static_cast<uint64_t>(info.f_type);
  // ext2 and ext3 have the number of ext4.
  *keep = *type_magic == EXT4_SUPER_MAGIC || *type_magic == XFS_SUPER_MAGIC ||
          *type_magic == TMPFS_MAGIC;
  return Status::Ok();
}

Status UnshareRange(int fd, uint64_t offset, uint64_t size) {
  const int result = Retry([&] {
    return ::fallocate(fd, FALLOC_FL_UNSHARE_RANGE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(offset), static_cast<off_t>(size));
  });
  if (result == 0 || errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS) {
    return Status::Ok();
  }
  return Status::FromErrno("fallocate", errno, PathOf(fd));
}

Status PopulateForStores(void* begin, size_t size, bool* populated) {
  const int result = Retry([&] { return ::madvise(begin, size, MADV_POPULATE_WRITE); });
  *populated = result == 0;
  if (result == 0 || errno == EINVAL) return Status::Ok();
  return Status::FromErrno("madvise", errno);
}

void AdviseNoReadAhead(int fd, void* begin, size_t size) {
  // Faults heed the advice for the mapping, reads that for the file.
  static_cast<void>(::madvise(begin, size, MADV_RANDOM));
  static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
}

}  // namespace engine_race::sys

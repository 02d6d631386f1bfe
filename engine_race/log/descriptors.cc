#include "engine_race/log/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "engine_race/base/sys.h"
#include "engine_race/io/block_device.h"

namespace engine_race {

uint64_t DescriptorsOf(const Geometry& geometry, uint64_t directory_count, uint64_t device_count) {
  // A path that is a directory has that and a lock in it open, too.
  const uint64_t own_directory_count = directory_count + device_count == 0 ? 1 : 0;
  const uint64_t file_count =
      (directory_count + own_directory_count) * geometry.files_per_directory() + device_count;
  return kOwnDescriptors + 2 * file_count + 2 * directory_count + kSpareDescriptors;
}

Status CheckDescriptors(const Geometry& geometry, const std::vector<std::string>& paths,
                        uint64_t open_count) {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return Status::Ok();
  }
  std::vector<std::string> used;
  {
    // `own` and the descriptor that ListDirectory opens are counted among the used ones.
    open_count += 2;
    UniqueFd own;
    if (!sys::OpenAt(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY, 0, &own).ok() ||
        !sys::ListDirectory(own.get(), &used).ok()) {
      return Status::Ok();
    }
  }
  uint64_t device_count = 0;
  for (const std::string& path : paths) {
    bool is_device = false;
    // A path that cannot be looked at is refused when it is opened, with the reason.
    if (io::BlockDevice::Is(path, &is_device).ok() && is_device) ++device_count;
  }
  const uint64_t needed = DescriptorsOf(geometry, paths.size() - device_count, device_count);
  if (used.size() + needed <= limit.rlim_cur + open_count) return Status::Ok();
  return Status::IOError("the store needs " + std::to_string(needed) +
                         " file descriptors, but of the process's " +
                         std::to_string(limit.rlim_cur) + " (RLIMIT_NOFILE, ulimit -n) " +
                         std::to_string(used.size()) + " are in use");
}

}  // namespace engine_race

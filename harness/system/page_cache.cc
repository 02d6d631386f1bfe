#include "harness/system/page_cache.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

namespace engine_race::harness {
namespace {

// Whether the files of `dir` lie in the page cache alone.
bool IsInMemory(const std::string& dir) {
  struct statfs info;
  if (statfs(dir.c_str(), &info) != 0) return false;
  const auto type = static_cast<uint64_t>(info.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

bool DropWholeCache() {
  const int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool dropped = write(fd, "3\n", 2) == 2;
  close(fd);
  return dropped;
}

bool DropFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool dropped = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
  close(fd);
  return dropped;
}

std::string DropEachFile(const std::string& dir) {
  std::error_code error;
  bool dropped_all = true;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (entry.is_regular_file(error)) dropped_all &= DropFile(entry.path().string());
  }
  return !error && dropped_all ? "fadvise" : "not dropped: neither drop_caches nor fadvise works";
}

}  // namespace

std::string DropFilesOf(const std::string& dir) {
  sync();
  return DropEachFile(dir);
}

std::string DropPageCache(const std::string& dir) {
  if (IsInMemory(dir)) return "not dropped: the files lie in memory";
  sync();
  return DropWholeCache() ? "drop_caches" : DropEachFile(dir);
}

bool SyncFileSystem(const std::string& dir) {
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = syncfs(fd) == 0;
  close(fd);
  return synced;
}

}  // namespace engine_race::harness

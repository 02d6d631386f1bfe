#include "harness/system/disk.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace harness {

std::string NearestDir(const std::string& dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path near = dir.empty() ? fs::current_path(error) : fs::absolute(dir, error);
  while (!fs::exists(near, error) && near.has_relative_path()) near = near.parent_path();
  return near.string();
}

uint64_t FreeBytes(const std::string& dir) {
  struct statvfs stats = {};
  if (statvfs(dir.c_str(), &stats) != 0) return 0;
  return uint64_t{stats.f_bavail} * stats.f_frsize;
}

uint64_t AllocatedBytes(const std::string& dir) {
  namespace fs = std::filesystem;
  constexpr uint64_t kBlockBytes = 512;  // of st_blocks, on every file system
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(dir, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info = {};
    if (lstat(at->path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      bytes += static_cast<uint64_t>(info.st_blocks) * kBlockBytes;
    }
  }
  return bytes;
}

std::string FileSystemName(const std::string& dir) {
  struct stat info = {};
  if (stat(dir.c_str(), &info) != 0) return "unknown";
  const std::string device =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string id, parent, numbers, word;
    fields >> id >> parent >> numbers;
    if (numbers != device) continue;
    while (fields >> word && word != "-") {
    }
    std::string type, source;
    if (fields >> type >> source) return type.append(" on ").append(source);
  }
  return "unknown";
}

}  // namespace harness

#include "harness/system/disk.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>

namespace harness {

uint64_t FreeBytes(const std::string& dir) {
  struct statvfs stats = {};
  if (statvfs(dir.c_str(), &stats) != 0) return 0;
  return uint64_t{stats.f_bavail} * stats.f_frsize;
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

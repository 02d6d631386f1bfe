#include "harness/system/disk.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

namespace engine_race::harness {

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

uint64_t AllocatedBytes(const std::string& dir, const std::string& prefix) {
  namespace fs = std::filesystem;
  constexpr uint64_t kBlockBytes = 512;  // of st_blocks, on every file system
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(dir, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->path().filename().string().starts_with(prefix)) continue;
    struct stat info = {};
    if (lstat(at->path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      bytes += static_cast<uint64_t>(info.st_blocks) * kBlockBytes;
    }
  }
  return bytes;
}

std::string WhyNoRoom(const std::vector<SpaceNeed>& needs) {
  struct Room {
    uint64_t needed_bytes = 0;
    uint64_t free_bytes = 0;
  };
  std::map<dev_t, Room> rooms;
  for (const bool adds : {false, true}) {
    for (const SpaceNeed& need : needs) {
      struct stat info = {};
      const std::string near = NearestDir(need.dir);
      if (stat(near.c_str(), &info) != 0 || S_ISBLK(info.st_mode)) continue;
      if (!adds) {
        const auto [room, is_new] = rooms.try_emplace(info.st_dev);
        if (is_new) room->second.free_bytes = FreeBytes(near);
        room->second.free_bytes += need.reused_bytes;
        continue;
      }
      // Ends at the first sum that is too large, so that none wraps.
      Room& room = rooms[info.st_dev];
      room.needed_bytes += need.bytes;
      if (room.needed_bytes <= room.free_bytes) continue;
      return "not enough space: " + std::to_string(room.needed_bytes) + " bytes of disk needed, " +
             std::to_string(room.free_bytes) + " free in " + near;
    }
  }
  return {};
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

}  // namespace engine_race::harness

#include "harness/system/disk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

#include "engine_race/base/sys.h"
#include "engine_race/base/text_file.h"
#include "harness/system/child_process.h"

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

namespace {

// Whether the files of `dir` lie in the page cache alone.
bool IsInMemory(const std::string& dir) {
  struct statfs info;
  if (statfs(dir.c_str(), &info) != 0) return false;
  const auto type = static_cast<uint64_t>(info.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

bool DropWholeCache() {
  const UniqueFd fd(open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
  return fd.valid() && write(fd.get(), "3\n", 2) == 2;
}

bool DropFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() && posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0;
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
  const UniqueFd fd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && syncfs(fd.get()) == 0;
}

namespace {

namespace fs = std::filesystem;

constexpr char kProcessFile[] = "/proc/self/io";
constexpr uint64_t kSectorBytes = 512;

}  // namespace

DeviceBytes operator-(const DeviceBytes& after, const DeviceBytes& before) {
  return {after.read - before.read, after.written - before.written,
          after.read_count - before.read_count, after.write_count - before.write_count};
}

DeviceIo::DeviceIo(const std::string& path) : source_(kProcessFile) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return;
  const dev_t device = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_dev;
  const fs::path block =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  std::error_code error;
  const fs::path target = fs::canonical(block, error);
  if (error || !fs::exists(block / "stat", error)) return;
  device_ = target.filename().string();
  source_ = (block / "stat").string();
}

std::optional<DeviceBytes> DeviceIo::Read() const {
  const std::string text = ReadTextFile(source_);
  return source_ == kProcessFile ? ParseProcessIo(text) : ParseBlockStat(text);
}

std::optional<DeviceBytes> ParseBlockStat(const std::string& text) {
  // Requests, merged requests, sectors and milliseconds of reads, then those of writes.
  std::array<uint64_t, 7> fields = {};
  std::istringstream stream(text);
  for (uint64_t& field : fields) {
    if (!(stream >> field)) return std::nullopt;
  }
  return DeviceBytes{fields[2] * kSectorBytes, fields[6] * kSectorBytes, fields[0], fields[4]};
}

std::optional<DeviceBytes> ParseProcessIo(const std::string& text) {
  std::istringstream stream(text);
  std::map<std::string, uint64_t> counts;
  std::string name;
  uint64_t count = 0;
  while (stream >> name >> count) counts[name] = count;
  if (!counts.contains("read_bytes:") || !counts.contains("write_bytes:")) return std::nullopt;
  return DeviceBytes{counts["read_bytes:"], counts["write_bytes:"], counts["syscr:"],
                     counts["syscw:"]};
}

namespace {

namespace fs = std::filesystem;

// Returns the name of a file that forbids to use the directory, or nothing.
std::string FileInTheWay(const std::string& dir, WorkDir::MayHold may_hold) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    std::string name = entry.path().filename().string();
    if (name != "lost+found" && (may_hold == nullptr || !may_hold(name))) return name;
  }
  return error ? error.message() : std::string();
}

}  // namespace

WorkDir::~WorkDir() {
  std::error_code ignored;
  if (is_fresh_) fs::remove(path_, ignored);
}

Status WorkDir::Prepare(const std::string& path, MayHold may_hold) {
  std::error_code failed;
  if (path.empty()) {
    std::string name = fresh_prefix_ + "XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      return Status::FromErrno("cannot make a directory here", errno);
    }
    path_ = fs::absolute(name, failed).string();
    is_fresh_ = true;
    return Status::Ok();
  }
  fs::create_directories(path, failed);
  if (failed) return Status::FromErrno(path, failed.value());
  const std::string obstacle = FileInTheWay(path, may_hold);
  if (!obstacle.empty()) {
    return Status::InvalidArgument(path + " holds foreign files (" + obstacle + "): left alone");
  }
  path_ = fs::absolute(path, failed).string();
  return Status::Ok();
}

ScratchDir::ScratchDir(const std::string& parent, uint64_t needed_bytes, const char* prefix) {
  if (FreeBytes(parent) < needed_bytes) return;
  std::error_code failed;
  std::string name =
      (std::filesystem::absolute(parent, failed) / (std::string(prefix) + "XXXXXX")).string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string LoopDisk::WhyNoXfs() {
  if (::geteuid() != 0) return "mounting a disk needs root";
  if (::access("/dev/loop-control", R_OK | W_OK) != 0) return "there are no loop devices";
  for (const char* program : {"/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"}) {
    if (::access(program, X_OK) == 0) return {};
  }
  return "mkfs.xfs is missing";
}

Status LoopDisk::Mount(const std::string& mkfs, const std::string& dir, uint64_t bytes) {
  const std::string image = dir + "/image";
  const std::string mount_point = dir + "/disk";
  std::error_code error;
  std::filesystem::create_directory(mount_point, error);
  std::ofstream(image).close();
  std::filesystem::resize_file(image, bytes, error);
  if (error) return Status::NotSupported(image + ": " + error.message());
  // mkfs lies where the PATH of users does not look.
  const ChildResult made = RunChild(
      {"sh", "-c",
       "PATH=$PATH:/usr/sbin:/sbin; exec 2>&1; " + mkfs + " \"$1\" && mount -o loop \"$1\" \"$2\"",
       "sh", image, mount_point});
  if (!made.started) return Status::NotSupported(made.error);
  if (made.exit_code != 0) {
    return Status::NotSupported("cannot mount " + image + ": " + made.output);
  }
  path_ = mount_point;
  return Status::Ok();
}

LoopDisk::~LoopDisk() {
  if (!path_.empty() && ::umount2(path_.c_str(), 0) != 0) ::umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace engine_race::harness

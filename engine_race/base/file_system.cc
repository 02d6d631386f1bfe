// File systems on block devices show a directory in sysfs for as long as they are mounted. The
// kernel gives each directory that it makes there a new number, in ascending order. So a later
// mount of the same device has another number.
#include "engine_race/base/file_system.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"

namespace engine_race::sys {
namespace {

// FS_IOC_GETFSSYSFSPATH of Linux 6.9, which older headers lack: the name below /sys/fs.
struct SysfsPath {
  uint8_t size;
  uint8_t name[128];
};
constexpr unsigned long kGetSysfsPath = _IOR(0x15, 1, SysfsPath);

// Names in /sys/fs by what statfs says, for kernels without that call.
struct KnownType {
  uint32_t magic;
  const char* name;
};
constexpr std::array<KnownType, 3> kKnownTypes = {{
    {0xef53, "ext4"},  // of ext2 and ext3 as well
    {0x58465342, "xfs"},
    {0xf2f52010, "f2fs"},
}};
constexpr uint32_t kBtrfsMagic = 0x9123683e;

std::string SysfsNameOf(dev_t device) {
  return "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

// 0 when there is no such file.
uint64_t InodeOf(const std::string& path) {
  struct stat info;
  return ::fstatat(AT_FDCWD, path.c_str(), &info, 0) == 0 ? info.st_ino : 0;
}

std::string BtrfsName(int fd) {
  btrfs_ioctl_fs_info_args info;
  std::memset(&info, 0, sizeof(info));
  if (::ioctl(fd, BTRFS_IOC_FS_INFO, &info) != 0) return {};
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "btrfs/";
  for (size_t i = 0; i < sizeof(info.fsid); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) name += '-';
    name += kDigits[info.fsid[i] >> 4];
    name += kDigits[info.fsid[i] & 15];
  }
  return name;
}

// Where sysfs shows the mounted file system, below /sys/fs; empty where it does not.
std::string NameInSysfs(int fd, dev_t device, uint32_t magic) {
  SysfsPath answer;
  std::memset(&answer, 0, sizeof(answer));
  if (::ioctl(fd, kGetSysfsPath, &answer) == 0 && answer.size <= sizeof(answer.name)) {
    const std::string name(reinterpret_cast<const char*>(answer.name), answer.size);
    // For ext2 and ext3 the kernel gives a name that sysfs does not have.
    if (InodeOf("/sys/fs/" + name) != 0) return name;
  }
  // btrfs makes its device numbers up, because it may span several devices.
  if (magic == kBtrfsMagic) return BtrfsName(fd);
  std::array<char, 4096> target;
  const ssize_t size = ::readlink(SysfsNameOf(device).c_str(), target.data(), target.size());
  if (size <= 0) return {};
  const std::string link(target.data(), static_cast<size_t>(size));
  for (const KnownType& type : kKnownTypes) {
    if (type.magic == magic) return std::string(type.name) + "/" + link.substr(link.rfind('/') + 1);
  }
  return {};
}

// The kernel's count of the media that it has seen, 0 before Linux 5.15.
uint64_t DiskSequence(const std::string& device) {
  // A partition has no number of its own: its disk, one directory up, has it.
  for (const char* name : {"/diskseq", "/../diskseq"}) {
    UniqueFd fd;
    std::array<char, 32> text = {};
    size_t read_bytes = 0;
    if (OpenAt(AT_FDCWD, device + name, O_RDONLY, 0, &fd).ok() &&
        Pread(fd.get(), text.data(), text.size() - 1, 0, &read_bytes).ok()) {
      return std::strtoull(text.data(), nullptr, 10);
    }
  }
  return 0;
}

}  // namespace

Status IdentifyMount(int fd, MountIdentity* identity) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return Status::FromErrno("fstat", errno, PathOf(fd));
  // Which device, which type or number on it, which file system or attachment, which mount.
  std::array<uint64_t, 4> words = {};
  if (S_ISBLK(info.st_mode)) {
    const std::string name = SysfsNameOf(info.st_rdev);
    words = {1, info.st_rdev, InodeOf(name), DiskSequence(name)};
    identity->recognised = words[2] != 0;
  } else {
    struct statfs file_system;
    if (::fstatfs(fd, &file_system) != 0) return Status::FromErrno("fstatfs", errno, PathOf(fd));
    words[0] = info.st_dev;
    words[1] = static_cast<uint32_t>(file_system.f_type);
    static_assert(sizeof(file_system.f_fsid) == sizeof(words[2]));
    std::memcpy(&words[2], &file_system.f_fsid, sizeof(words[2]));
    const std::string name =
        NameInSysfs(fd, info.st_dev, static_cast<uint32_t>(file_system.f_type));
    words[3] = name.empty() ? 0 : InodeOf("/sys/fs/" + name);
    identity->recognised = words[3] != 0;
  }
  identity->word = Hash64(words.data(), sizeof(words), 0);
  return Status::Ok();
}

Status FreeBytes(int fd, uint64_t* free_bytes) {
  struct statfs info;
  if (::fstatfs(fd, &info) != 0) return Status::FromErrno("fstatfs", errno, PathOf(fd));
  const uint64_t block_count = std::min<uint64_t>(info.f_bfree, info.f_bavail);
  *free_bytes = info.f_blocks == 0 ? ~uint64_t{0} : block_count * uint64_t(info.f_bsize);
  return Status::Ok();
}

bool SharesBlocks(int fd) noexcept {
  constexpr uint32_t kExtents = 32;
  // The extents lie behind the head.
  std::array<uint64_t, (sizeof(fiemap) + kExtents * sizeof(fiemap_extent)) / 8> memory;
  auto* const map = reinterpret_cast<fiemap*>(memory.data());
  for (uint64_t offset = 0, last = 0; last == 0;) {
    memory = {};
    map->fm_start = offset;
    map->fm_length = FIEMAP_MAX_OFFSET - offset;
    map->fm_extent_count = kExtents;
    if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents == 0) return false;
    for (uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
      const fiemap_extent& extent = map->fm_extents[i];
      if ((extent.fe_flags & FIEMAP_EXTENT_SHARED) != 0) return true;
      last = extent.fe_flags & FIEMAP_EXTENT_LAST;
      offset = extent.fe_logical + extent.fe_length;
    }
  }
  return false;
}

}  // namespace engine_race::sys

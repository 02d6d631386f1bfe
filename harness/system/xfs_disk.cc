#include "harness/system/xfs_disk.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "harness/system/child_process.h"

namespace engine_race::harness {

namespace {

// mkfs.xfs refuses less than 300 MiB.
constexpr uint64_t kLeastBytes = uint64_t{320} << 20;

}  // namespace

std::string XfsDisk::WhyNot() {
  if (::geteuid() != 0) return "mounting a disk needs root";
  if (::access("/dev/loop-control", R_OK | W_OK) != 0) return "there are no loop devices";
  for (const char* program : {"/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"}) {
    if (::access(program, X_OK) == 0) return {};
  }
  return "mkfs.xfs is missing";
}

Status XfsDisk::Mount(const std::string& dir, uint64_t bytes) {
  const std::string image = dir + "/xfs_image";
  const std::string mount_point = dir + "/xfs";
  std::error_code error;
  std::filesystem::create_directory(mount_point, error);
  std::ofstream(image).close();
  std::filesystem::resize_file(image, std::max(bytes, kLeastBytes), error);
  if (error) return Status::NotSupported(image + ": " + error.message());
  // mkfs lies where the PATH of users does not look.
  const ChildResult made = RunChild(
      {"sh", "-c",
       "PATH=$PATH:/usr/sbin:/sbin; mkfs.xfs -q -m reflink=1 \"$1\" && mount -o loop \"$1\" \"$2\"",
       "sh", image, mount_point});
  if (!made.started) return Status::NotSupported(made.error);
  if (made.exit_code != 0) return Status::NotSupported("cannot mount " + image);
  path_ = mount_point;
  return Status::Ok();
}

XfsDisk::~XfsDisk() {
  if (!path_.empty() && ::umount2(path_.c_str(), 0) != 0) ::umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace engine_race::harness

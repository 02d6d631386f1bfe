#include "harness/system/loop_disk.h"

#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "harness/system/child_process.h"

namespace engine_race::harness {

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

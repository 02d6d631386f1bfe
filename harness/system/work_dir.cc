#include "harness/system/work_dir.h"

#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "harness/system/child_process.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

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

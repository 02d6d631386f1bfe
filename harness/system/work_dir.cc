#include "harness/system/work_dir.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

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

}  // namespace engine_race::harness

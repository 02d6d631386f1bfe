#include "harness/numa/instance_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <system_error>

namespace engine_race::harness {

namespace fs = std::filesystem;

InstanceDirs::~InstanceDirs() {
  locks_.clear();
  std::error_code ignored;
  // Refused for a directory that is not empty.
  for (auto dir = made_.rbegin(); dir != made_.rend(); ++dir) fs::remove(*dir, ignored);
}

Status InstanceDirs::Take(const std::string& dir) {
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path path = dir; !fs::exists(path, error) && path.has_relative_path();
       path = path.parent_path()) {
    missing.push_back(path);
  }
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) {
    const bool made = fs::create_directory(*path, error);
    if (error) return Status::IOError(path->string() + ": " + error.message());
    if (made) made_.push_back(path->string());
  }
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, /*mode=*/0, &fd));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Status::InvalidArgument(dir + " is in use by another race");
  }
  locks_.push_back(std::move(fd));
  return Status::Ok();
}

}  // namespace engine_race::harness

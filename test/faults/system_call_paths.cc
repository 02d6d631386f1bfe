// The paths that calls are about.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "test/faults/system_calls.h"

namespace engine_race::test {

std::string PathOfFd(int fd) {
  if (fd < 0) return "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  std::array<char, PATH_MAX> path;
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  return size < 0 ? "" : std::string(path.data(), static_cast<size_t>(size));
}

std::string PathAt(int dir_fd, const char* name) {
  if (name[0] == '/' || dir_fd == AT_FDCWD) return name;
  return PathOfFd(dir_fd) + "/" + name;
}

std::string PathOf(const SystemCall& call) {
  return call.name == nullptr ? PathOfFd(call.fd) : PathAt(call.fd, call.name);
}

}  // namespace engine_race::test

// Another name for a block device of the machine, for tests that only look at it.
//
// Header only, stateless.
#ifndef TEST_DEVICE_NODE_H_
#define TEST_DEVICE_NODE_H_

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace engine_race::test {

// Makes `path` a name of the first device that the kernel lists. Returns nothing, or why it cannot.
inline std::string MakeDeviceNode(const std::string& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/dev/block", error)) {
    unsigned major = 0;
    unsigned minor = 0;
    const std::string numbers = entry.path().filename().string();
    if (std::sscanf(numbers.c_str(), "%u:%u", &major, &minor) != 2) continue;
    if (::mknod(path.c_str(), S_IFBLK | 0600, makedev(major, minor)) == 0) return {};
    return std::string("mknod: ") + std::strerror(errno);
  }
  return "the kernel lists no block devices";
}

}  // namespace engine_race::test

#endif  // TEST_DEVICE_NODE_H_

// The file system of a directory: its kind and its free space.
//
// Stateless; thread-safe.
#ifndef HARNESS_SYSTEM_DISK_H_
#define HARNESS_SYSTEM_DISK_H_

#include <cstdint>
#include <string>
#include <vector>

namespace engine_race::harness {

// The directory itself, or the nearest one above it that exists. An absolute name; "" is the
// working directory.
std::string NearestDir(const std::string& dir);

// Bytes that may still be written to the file system of `dir`; 0 when it cannot be asked.
uint64_t FreeBytes(const std::string& dir);

// Bytes that the files in and below `dir` whose names begin with `prefix` take on disk, holes left
// out. Files that are gone before they are looked at count nothing.
uint64_t AllocatedBytes(const std::string& dir, const std::string& prefix = "");

// Bytes to write below a directory, which need not exist yet.
struct SpaceNeed {
  std::string dir;
  uint64_t bytes = 0;
  uint64_t reused_bytes = 0;  // of files there that go before
};

// Empty, or which file system has too little room for all of these together. Raw devices are not
// looked at: the engine refuses a small one.
std::string WhyNoRoom(const std::vector<SpaceNeed>& needs);

// "ext4 on /dev/vda", as far as /proc/self/mountinfo tells.
std::string FileSystemName(const std::string& dir);

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_DISK_H_

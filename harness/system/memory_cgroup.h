// A cap on the memory of child processes, the page cache of their files included. The cap is a
// cgroup of version 1 or 2, whichever this machine has.
//
// An object belongs to one thread.
#ifndef HARNESS_SYSTEM_MEMORY_CGROUP_H_
#define HARNESS_SYSTEM_MEMORY_CGROUP_H_

#include <cstdint>
#include <string>

#include "engine_race/base/control_groups.h"
#include "engine_race/base/status.h"

namespace engine_race::harness {

struct MemoryCgroupParent {
  std::string path;
  int version = 0;  // of the hierarchy, 1 or 2
};
// Finds the group below which a new one can be made: of version 1 if it has the memory controller,
// else of version 2. There only the root and groups without processes of their own hand the
// controller down. `read` reads the kernel's files. kNotSupported, with the reason.
Status FindMemoryCgroupParent(const FileReaderFn& read, MemoryCgroupParent* parent);

class MemoryCgroup {
 public:
  MemoryCgroup() = default;
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;
  // Removes the group, whose processes have ended.
  ~MemoryCgroup();

  // Makes a group of this process's own. kNotSupported, with the reason, where that is impossible.
  Status Create(uint64_t limit_bytes);
  // For Join; empty before Create.
  const std::string& path() const { return path_; }
  // Of the hierarchy, 1 or 2; 0 before Create.
  int version() const { return version_; }

  // Puts the calling process into the group of this path.
  static Status Join(const std::string& path);
  // Makes a group, lets a child process join it, and removes it again. The caller has no other
  // threads.
  static Status TryOut(uint64_t limit_bytes);

 private:
  std::string path_;
  int version_ = 0;
};

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_MEMORY_CGROUP_H_

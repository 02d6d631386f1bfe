// The directories of a race's instances: made where they are missing, and locked.
//
// Two launchers in one directory would remove each other's stores and programs. The lock is that of
// flock on the directory itself, so it leaves no file and ends with the launcher. One thread.
#ifndef HARNESS_NUMA_INSTANCE_DIRS_H_
#define HARNESS_NUMA_INSTANCE_DIRS_H_

#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"

namespace engine_race::harness {

class InstanceDirs {
 public:
  InstanceDirs() = default;
  InstanceDirs(const InstanceDirs&) = delete;
  InstanceDirs& operator=(const InstanceDirs&) = delete;
  // Removes the directories that it made and that are empty.
  ~InstanceDirs();

  // Makes the directory with its parents and locks it. kInvalidArgument when another launcher holds
  // it. A file system that cannot lock directories, as NFS, goes without.
  Status Take(const std::string& dir);

 private:
  // Parents come before the directories in them.
  std::vector<std::string> made_;
  std::vector<UniqueFd> locks_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_INSTANCE_DIRS_H_

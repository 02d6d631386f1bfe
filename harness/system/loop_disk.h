// A disk of a program's own: a file system in a file, mounted through a loop device.
//
// Mounting needs root.
#ifndef HARNESS_SYSTEM_LOOP_DISK_H_
#define HARNESS_SYSTEM_LOOP_DISK_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// Makes an XFS, whose files can share blocks by reflink. It takes 300 MiB at the least.
inline constexpr char kMakeXfs[] = "mkfs.xfs -q -f -m reflink=1";

class LoopDisk {
 public:
  // Why none with XFS can be mounted here; empty when it seems possible.
  static std::string WhyNoXfs();

  LoopDisk() = default;
  LoopDisk(const LoopDisk&) = delete;
  LoopDisk& operator=(const LoopDisk&) = delete;
  // Unmounts the disk. Its files in `dir` stay.
  ~LoopDisk();

  // Makes a disk of `bytes` in the directory `dir` by the command `mkfs`, which the name of the
  // image follows. The image has holes until it is written to. kNotSupported, with the reason,
  // where that fails.
  Status Mount(const std::string& mkfs, const std::string& dir, uint64_t bytes);
  // The directory where it is mounted; empty before Mount.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_LOOP_DISK_H_

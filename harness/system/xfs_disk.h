// A disk of a benchmark's own: XFS in a file, mounted through a loop device. Its files can share
// blocks by reflink.
//
// Mounting needs root. Not thread-safe.
#ifndef HARNESS_SYSTEM_XFS_DISK_H_
#define HARNESS_SYSTEM_XFS_DISK_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"

namespace engine_race::harness {

class XfsDisk {
 public:
  // Why none can be mounted here; empty when it seems possible.
  static std::string WhyNot();

  XfsDisk() = default;
  XfsDisk(const XfsDisk&) = delete;
  XfsDisk& operator=(const XfsDisk&) = delete;
  // Unmounts the disk. Its files in `dir` stay.
  ~XfsDisk();

  // Makes a disk of at least `bytes` in the directory `dir`. Its image has holes until it is
  // written to. kNotSupported, with the reason, where that fails.
  Status Mount(const std::string& dir, uint64_t bytes);
  // The directory where it is mounted; empty before Mount.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_XFS_DISK_H_

// A working directory, found or made, that is guarded against the loss of foreign files.
//
// It takes only an empty directory, or one in which the caller knows every file.
#ifndef HARNESS_SYSTEM_WORK_DIR_H_
#define HARNESS_SYSTEM_WORK_DIR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "engine_race/base/status.h"

namespace engine_race::harness {

class WorkDir {
 public:
  // Tells by its name whether a file directly in the directory is a known one.
  using MayHold = bool (*)(const std::string& name);

  // A fresh directory is named `fresh_prefix` and six random characters.
  explicit WorkDir(std::string fresh_prefix = "race-store.")
      : fresh_prefix_(std::move(fresh_prefix)) {}
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  // Removes a directory that Prepare has chosen itself, if it is empty.
  ~WorkDir();

  // Takes `path` and makes it when it is missing. An empty `path` makes a fresh directory below the
  // current one. kInvalidArgument for a directory with a file that `may_hold` does not know, except
  // lost+found; the message names the file.
  Status Prepare(const std::string& path, MayHold may_hold = nullptr);

  // Absolute; empty before Prepare.
  const std::string& path() const { return path_; }

 private:
  const std::string fresh_prefix_;
  std::string path_;
  bool is_fresh_ = false;
};

// A fresh directory, which goes with all that is in it when its object does.
class ScratchDir {
 public:
  // Makes the directory below `parent`; its name is `prefix` and six random characters. path() is
  // empty if it cannot be made, or if `parent` has not `needed_bytes` free.
  ScratchDir(const std::string& parent, uint64_t needed_bytes, const char* prefix = "engine_race.");
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  ~ScratchDir();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A disk of a program's own: a file system in a file, mounted through a loop device.
//
// Mounting needs root.

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

#endif  // HARNESS_SYSTEM_WORK_DIR_H_

// Directories and the disks below them: file systems, space, the page cache, counts of the device,
// working directories, and disks in files.
//
// Functions are stateless and thread-safe. An object belongs to one thread.
#ifndef HARNESS_SYSTEM_DISK_H_
#define HARNESS_SYSTEM_DISK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/status.h"

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

// Empties the page cache between two phases: writes it to the device, or drops it, so that the next
// phase starts cold.

// Syncs, then drops the page cache of the whole machine. Without the rights for that, drops it for
// the regular files directly in `dir`. Returns "drop_caches", "fadvise" or why files of `dir` are
// still in memory. On a tmpfs or ramfs it does nothing, because files have no other place there.
std::string DropPageCache(const std::string& dir);

// The second way alone: for a program that runs beside others, whose cache it must not drop.
std::string DropFilesOf(const std::string& dir);

// Writes what the page cache has of the file system of `dir` to its device. False on failure.
bool SyncFileSystem(const std::string& dir);

// The bytes that the device below a directory has read and written, and in how many requests.
//
// Counted by the kernel for the whole block device, or the partition, so other programs count too.
// Where the file system has no block device of its own, as tmpfs and overlayfs have none, the
// kernel's count for this process stands in. Thread-safe.
struct DeviceBytes {
  uint64_t read = 0;
  uint64_t written = 0;
  // Requests of the device, or calls of the process.
  uint64_t read_count = 0;
  uint64_t write_count = 0;
};
// The growth of all counts since `before`.
DeviceBytes operator-(const DeviceBytes& after, const DeviceBytes& before);

class DeviceIo {
 public:
  // `path` is a directory, or a block device itself.
  explicit DeviceIo(const std::string& path);

  // "vda"; empty where there is no block device.
  const std::string& device() const { return device_; }
  // The file with the counts: "/sys/dev/block/254:0/stat" or "/proc/self/io".
  const std::string& source() const { return source_; }
  // Since the machine or the process started; nothing when the counts cannot be read.
  std::optional<DeviceBytes> Read() const;

 private:
  std::string device_;
  std::string source_;
};

// The counts in the text of a block device's stat file, and of a process's io file.
std::optional<DeviceBytes> ParseBlockStat(const std::string& text);
std::optional<DeviceBytes> ParseProcessIo(const std::string& text);

// A working directory, found or made, that is guarded against the loss of foreign files.
//
// It takes only an empty directory, or one in which the caller knows every file.

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

#endif  // HARNESS_SYSTEM_DISK_H_

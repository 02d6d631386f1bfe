// One instance of a race: its process, the pipes over which it says where it is, its directory, and
// its copy of the program.
//
// It has a process group of its own, so that whatever it starts is stopped with it.
#ifndef HARNESS_NUMA_INSTANCE_PROCESS_H_
#define HARNESS_NUMA_INSTANCE_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "harness/system/memory_maps.h"

namespace engine_race::harness {

class InstanceProcess {
 public:
  // The descriptors under which the process finds its ends of the pipes.
  static constexpr int kGateInFd = 3;
  static constexpr int kGateOutFd = 4;

  // Kills it if it still runs.
  ~InstanceProcess();

  // Runs args[0], looked up in PATH; what it prints goes to the file `log_path`.
  Status Start(const std::vector<std::string>& args, const std::string& log_path);

  // To poll for lines.
  int gate_fd() const { return gate_.get(); }
  // Takes what the pipe has. False when the other end has been closed and no whole line is left.
  bool ReadGate();
  // The first line that has not been taken yet.
  std::optional<std::string> TakeLine();
  // Lets it go on; false when it has gone.
  bool Answer();

  // Asks it to stop, as Ctrl-C would, and no longer answers it.
  void Stop();
  // Ends it at once.
  void Kill();
  // Waits for its end; its exit code, or 128 + the signal that ended it.
  int Wait();
  bool IsRunning();

 private:
  // Takes the exit code of a process that has ended.
  bool Reap(int wait_options);

  pid_t pid_ = 0;
  std::optional<int> exit_code_;
  // The launcher's ends: of what the process writes, and of what it reads.
  UniqueFd gate_;
  UniqueFd answers_;
  // Of the gate, the lines that TakeLine has not returned.
  std::string lines_;
};

// The directories of a race's instances: made where they are missing, and locked.
//
// Two launchers in one directory would remove each other's stores and programs. The lock is that of
// flock on the directory itself, so it leaves no file and ends with the launcher.
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

// Copies of a program that share no page and no block with the original. The pages of a copy lie in
// the memory of the node where the copier runs.
//
// The page cache keeps the pages of a file by its inode, on the node of the process that wrote or
// first read them. So an instance has text of its own only if it runs a file of its own. The text
// is near only if the file was copied under the instance's memory policy. Stateless; call each from
// one thread.

// kNotSupported, saying why, unless the file is an ELF program without an interpreter. A program
// that is linked dynamically runs the text of its libraries too, which all its copies would share.
Status CheckStaticProgram(const std::string& path);

// kInvalidArgument when blocks of the file are shared with other files. Success where the file
// system does not list blocks. tmpfs has none to share; of ZFS and NFS this is not known, but the
// pages of the file are its own there too.
Status CheckOwnExtents(const std::string& path);

// Writes a new file `target` with the bytes and the permissions of `source`, and syncs it. A file
// that had this name is replaced, but only by a copy without a fault. kInvalidArgument where the
// copy shares its inode or blocks.
Status CopyProgram(const std::string& source, const std::string& target);

// Which nodes hold the file's pages in the page cache. Pages that are not there yet are read.
// kNotSupported where the kernel has no NUMA, kIOError when it leaves pages of the file out.
Status CachedPages(const std::string& path, NodeBytes* bytes);

// Brings the file's pages into the page cache of `nodes`, where the caller must be bound: what lies
// elsewhere is dropped and read again. kIOError when some cannot be moved, which is so while
// another process maps them.
Status PlaceInCache(const std::string& path, const std::vector<uint32_t>& nodes);

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_INSTANCE_PROCESS_H_

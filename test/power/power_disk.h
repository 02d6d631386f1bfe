// A disk that can lose power. It watches all changes that a store makes to its directory. At any
// moment it makes directories that a loss of power could leave behind.
//
// It is as strict as POSIX. Bytes are durable after a flush of their file that began once they were
// written, names after a flush of the directory. FileModel has the rules for all other changes.
//
// A hook: it works while a ScopedHook holds it. It sees one directory and the subdirectories that
// it has from the start, one level deep. Other paths pass. Thread safety: OnCall and Crash by any
// thread at once, the fields set before. A crash is one moment of all files: no call into the
// directory begins or ends during it.
#ifndef TEST_POWER_POWER_DISK_H_
#define TEST_POWER_POWER_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "test/faults/system_calls.h"
#include "test/power/file_model.h"

namespace engine_race::test {

class PowerDisk : public SystemCallHook {
 public:
  // `dir` exists; what it holds is durable.
  explicit PowerDisk(std::string dir);
  PowerDisk(const PowerDisk&) = delete;

  long OnCall(SystemCall* call) override;

  // Looks at the mapped files, so that a later crash can bring back what they held now.
  void Look();
  // Fills the empty directory `to` with one of the states that a loss of power now could leave.
  void Crash(const CrashBias& bias, Random* random, const std::string& to);
  // Crash with a bias drawn for it.
  void Crash(Random* random, const std::string& to);

  // Changes that are not durable yet, of all files and names.
  size_t pending_count();

  // Called before and after each call that changes or flushes something, with its name and file,
  // outside of all locks. May call Crash.
  std::function<void(const std::string& event)> on_event;
  // Asked about each flush of a file: true makes it fail with EIO.
  std::function<bool(const std::string& name)> fails_flush;
  // Whether files cannot be opened with O_DIRECT: logs go through the page cache then.
  bool refuses_direct = false;
  // Otherwise every hole that is to be punched is refused with EOPNOTSUPP.
  bool punches_holes = true;
  // The file that is opened instead of the machine's boot id; empty: the boot id itself.
  std::string boot_id_path;
  // Another number stands for another mount: files show another device.
  uint64_t mount_number = 0;

 private:
  struct NameChange {
    std::string from;  // empty: a creation
    std::string to;    // empty: a removal
    std::shared_ptr<FileModel> file;
    bool durable = false;
  };
  // Files by the name they were opened under, as seen from the directory; directories, whose names
  // end in ".", have no file.
  struct OpenFile {
    std::string name;
    std::shared_ptr<FileModel> file;
    bool direct = false;
  };
  using Names = std::map<std::string, std::shared_ptr<FileModel>>;

  long OnOpen(SystemCall* call);
  long OnRename(SystemCall* call);
  long OnUnlink(SystemCall* call);
  long OnChange(SystemCall* call, FileModel* file, Change change);
  long OnFlush(SystemCall* call, const std::string& name, FileModel* file);
  long OnDirectoryFlush(SystemCall* call, const std::string& name);
  long OnStatus(SystemCall* call);
  void OnClose(int fd);

  // The name of `path` in the directory, "." for itself and "sub/." for a subdirectory; false for
  // other paths.
  bool NameOf(const std::string& path, std::string* name) const;
  void AdoptFiles(const std::string& subdirectory);
  bool FindFd(int fd, OpenFile* found);
  void Tell(const std::string& event) const {
    if (on_event) on_event(event);
  }
  static void Apply(const NameChange& change, Names* names);

  const std::string dir_;
  std::vector<std::string> subdirectories_;
  std::mutex mutex_;
  uint64_t next_id_ = 1;  // of changes
  std::unordered_map<int, OpenFile> open_;
  Names durable_names_;
  Names names_;
  std::vector<std::shared_ptr<NameChange>> name_changes_;
};

}  // namespace engine_race::test

#endif  // TEST_POWER_POWER_DISK_H_

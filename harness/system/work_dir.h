// A directory to work in: found or made, and guarded against the loss of foreign files.
//
// Only an empty directory is taken, or one in which every file is known to the caller. Not
// synchronised.
#ifndef HARNESS_SYSTEM_WORK_DIR_H_
#define HARNESS_SYSTEM_WORK_DIR_H_

#include <string>

namespace harness {

class WorkDir {
 public:
  // Tells by its name whether a file that lies directly in the directory may be there.
  using MayHold = bool (*)(const std::string& name);

  WorkDir() = default;
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  // Removes a directory that Prepare made up by itself, when it is empty again.
  ~WorkDir();

  // Takes `path`, made when missing. When `path` is empty, makes a fresh directory below the
  // current one. Refuses a directory with any file but lost+found for which `may_hold` is null or
  // false; *error names that file.
  bool Prepare(const std::string& path, std::string* error, MayHold may_hold = nullptr);

  // Absolute; empty before Prepare.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_fresh_ = false;
};

}  // namespace harness

#endif  // HARNESS_SYSTEM_WORK_DIR_H_

// A temporary directory in memory, where a device costs nothing.
#ifndef HARNESS_SYSTEM_TMPFS_DIR_H_
#define HARNESS_SYSTEM_TMPFS_DIR_H_

#include <cstdint>
#include <string>

namespace harness {

class TmpfsDir {
 public:
  // Makes the directory below `parent`. path() is empty if `parent` has not `needed_bytes` free.
  TmpfsDir(const std::string& parent, uint64_t needed_bytes);
  TmpfsDir(const TmpfsDir&) = delete;
  TmpfsDir& operator=(const TmpfsDir&) = delete;
  ~TmpfsDir();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace harness

#endif  // HARNESS_SYSTEM_TMPFS_DIR_H_

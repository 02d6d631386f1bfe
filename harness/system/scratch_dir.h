// A fresh directory, which goes with all that is in it when its object does. Not thread-safe.
#ifndef HARNESS_SYSTEM_SCRATCH_DIR_H_
#define HARNESS_SYSTEM_SCRATCH_DIR_H_

#include <cstdint>
#include <string>

namespace engine_race::harness {

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

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_SCRATCH_DIR_H_

#include "harness/system/scratch_dir.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "harness/system/disk.h"

namespace engine_race::harness {

ScratchDir::ScratchDir(const std::string& parent, uint64_t needed_bytes, const char* prefix) {
  if (FreeBytes(parent) < needed_bytes) return;
  std::error_code failed;
  std::string name =
      (std::filesystem::absolute(parent, failed) / (std::string(prefix) + "XXXXXX")).string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace engine_race::harness

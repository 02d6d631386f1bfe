#include "harness/claims/index_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "engine_race/log/format.h"

namespace harness {

namespace fs = std::filesystem;
namespace format = engine_race::format;

void RemoveIndexRoot(const std::string& store_dir) {
  std::error_code ignored;
  fs::remove(fs::path(store_dir) / format::kIndexRootName, ignored);
}

uint64_t IndexDiskBytes(const std::string& store_dir) {
  constexpr uint64_t kStatBlockBytes = 512;
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(store_dir, error)) {
    struct stat status = {};
    if (!entry.path().filename().string().starts_with(format::kIndexFilePrefix)) continue;
    if (stat(entry.path().c_str(), &status) != 0) continue;
    bytes += static_cast<uint64_t>(status.st_blocks) * kStatBlockBytes;
  }
  return bytes;
}

uint64_t IndexBlockBytes(uint64_t key_count) {
  return uint64_t{format::IndexBlocksOf(key_count)} * format::kIndexBlockBytes;
}

}  // namespace harness

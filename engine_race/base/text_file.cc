#include "engine_race/base/text_file.h"

#include <fcntl.h>

#include "engine_race/base/sys.h"

namespace engine_race {
namespace {

// A machine with thousands of mounts has a megabyte of mountinfo.
constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr size_t kStepBytes = 4096;

}  // namespace

std::string ReadTextFile(const std::string& path) {
  UniqueFd fd;
  if (!sys::OpenAt(AT_FDCWD, path, O_RDONLY, 0, &fd).ok()) return {};
  std::string bytes;
  while (bytes.size() < kMaxFileBytes) {
    const size_t begin = bytes.size();
    bytes.resize(begin + kStepBytes);
    size_t read_bytes = 0;
    if (!sys::Pread(fd.get(), &bytes[begin], kStepBytes, begin, &read_bytes).ok()) return {};
    bytes.resize(begin + read_bytes);
    if (read_bytes < kStepBytes) break;
  }
  return bytes;
}

}  // namespace engine_race

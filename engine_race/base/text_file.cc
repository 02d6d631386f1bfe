#include "engine_race/base/text_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "engine_race/base/retry.h"
#include "engine_race/base/sys.h"

namespace engine_race {
namespace {

// A machine with thousands of mounts has a megabyte of mountinfo.
constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr size_t kStepBytes = 4096;

Status CannotRead(const std::string& path, const Status& why) {
  return why.Reworded(Code::kIOError, path + " cannot be read: " + why.message());
}

}  // namespace

Status TryReadTextFile(const std::string& path, std::string* text) {
  text->clear();
  const int opened =
      sys::Retry([&] { return ::openat(AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (opened < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Status::Ok();
    return CannotRead(path, Status::FromErrno("open", errno, path));
  }
  const UniqueFd fd(opened);
  std::string bytes;
  while (bytes.size() < kMaxFileBytes) {
    const size_t begin = bytes.size();
    bytes.resize(begin + kStepBytes);
    size_t read_bytes = 0;
    const Status read = sys::Pread(fd.get(), &bytes[begin], kStepBytes, begin, &read_bytes);
    if (!read.ok()) return CannotRead(path, read);
    bytes.resize(begin + read_bytes);
    if (read_bytes < kStepBytes) break;
  }
  *text = std::move(bytes);
  return Status::Ok();
}

std::string ReadTextFile(const std::string& path) {
  std::string text;
  return TryReadTextFile(path, &text).ok() ? text : std::string();
}

}  // namespace engine_race

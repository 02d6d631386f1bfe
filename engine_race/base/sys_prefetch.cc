#include "engine_race/base/sys_prefetch.h"

#include <fcntl.h>

#include <algorithm>

#include "engine_race/base/sys.h"

namespace engine_race::sys {
namespace {

// The kernel reads no more for one call than its read-ahead window, which is 128 KiB by default. It
// leaves out the rest of a longer range and reports no error.
constexpr uint64_t kPieceBytes = 128 << 10;

}  // namespace

void Prefetch(int fd, uint64_t offset, uint64_t size) {
  for (const uint64_t end = offset + std::min(size, kMaxPrefetchBytes); offset < end;
       offset += kPieceBytes) {
    const uint64_t piece_bytes = std::min(kPieceBytes, end - offset);
    // Only advice: a refusal costs time and nothing else.
    static_cast<void>(::posix_fadvise(fd, static_cast<off_t>(offset),
                                      static_cast<off_t>(piece_bytes), POSIX_FADV_WILLNEED));
  }
}

Status PrefetchFile(int dir_fd, const std::string& name) {
  UniqueFd fd;
  // O_NONBLOCK: a FIFO of this name must not block.
  const Status opened = OpenAt(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd);
  if (opened.error() == ENOENT) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(opened);
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(FileSize(fd.get(), &size_bytes));
  Prefetch(fd.get(), 0, size_bytes);
  return Status::Ok();
}

void AwaitPrefetched(int fd) {
  uint64_t size_bytes = 0;
  if (!FileSize(fd, &size_bytes).ok() || size_bytes == 0) return;
  char last = 0;
  size_t read_bytes = 0;
  // A failure comes again when the content is read.
  static_cast<void>(
      Pread(fd, &last, sizeof(last), std::min(size_bytes, kMaxPrefetchBytes) - 1, &read_bytes));
}

}  // namespace engine_race::sys

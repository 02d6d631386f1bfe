#include "engine_race/base/sys_prefetch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine_race/base/sys.h"

namespace engine_race::sys {
namespace {

// The kernel reads no more for one call than its read-ahead window, which is 128 KiB by default. It
// leaves out the rest of a longer range and reports no error.
constexpr uint64_t kPieceBytes = 128 << 10;

// Calls visit(begin, data_end, end) for the parts of a file that have data, up to kMaxPrefetchBytes
// of them. The first data of a part end at `data_end`. A part is a piece at least, so that there
// are few; the rest of it may be holes.
template <typename Visit>
void ForEachData(int fd, const Visit& visit) {
  uint64_t size_bytes = 0;
  // A failure comes again when the content is read.
  if (!FileSize(fd, &size_bytes).ok()) return;
  uint64_t left_bytes = kMaxPrefetchBytes;
  for (uint64_t offset = 0; offset < size_bytes && left_bytes > 0;) {
    const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;
    // A file system that does not tell has data everywhere.
    if (data >= 0) offset = static_cast<uint64_t>(data);
    const off_t hole = data < 0 ? -1 : ::lseek(fd, data, SEEK_HOLE);
    const uint64_t data_end = hole < 0 ? size_bytes : static_cast<uint64_t>(hole);
    const uint64_t part_end = std::min(std::max(data_end, offset + kPieceBytes), size_bytes);
    if (part_end <= offset) return;  // the file has become shorter
    const uint64_t end = std::min(part_end, offset + left_bytes);
    visit(offset, std::min(data_end, end), end);
    left_bytes -= end - offset;
    offset = end;
  }
}

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
  ForEachData(fd.get(), [&](uint64_t begin, uint64_t /*data_end*/, uint64_t end) {
    Prefetch(fd.get(), begin, end - begin);
  });
  return Status::Ok();
}

void AwaitPrefetched(int fd) {
  uint64_t last_end = 0;
  ForEachData(fd, [&](uint64_t, uint64_t data_end, uint64_t) { last_end = data_end; });
  if (last_end == 0) return;
  char last = 0;
  size_t read_bytes = 0;
  // A failure comes again when the content is read.
  static_cast<void>(Pread(fd, &last, sizeof(last), last_end - 1, &read_bytes));
}

}  // namespace engine_race::sys

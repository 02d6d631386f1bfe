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

// *begin and *end: the first data of a file from `offset` on, and before `limit`. False: there are
// none.
bool FindData(int fd, uint64_t offset, uint64_t limit, uint64_t* begin, uint64_t* end) {
  const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0 && errno == ENXIO) return false;
  // A file system that does not tell has data everywhere.
  const off_t hole = data < 0 ? -1 : ::lseek(fd, data, SEEK_HOLE);
  *begin = data < 0 ? offset : static_cast<uint64_t>(data);
  *end = hole < 0 ? limit : std::min(limit, static_cast<uint64_t>(hole));
  return *begin < *end;
}

// Calls visit(begin, end) for the parts of a file that have data, up to kMaxPrefetchBytes of them.
// A part is a piece at least, so that there are few. Some of it may be holes.
template <typename Visit>
void ForEachPart(int fd, const Visit& visit) {
  uint64_t size_bytes = 0;
  // A failure comes again when the content is read.
  if (!FileSize(fd, &size_bytes).ok()) return;
  uint64_t left_bytes = kMaxPrefetchBytes;
  uint64_t begin = 0;
  uint64_t end = 0;
  while (left_bytes > 0 && FindData(fd, end, size_bytes, &begin, &end)) {
    end = std::min({std::max(end, begin + kPieceBytes), size_bytes, begin + left_bytes});
    visit(begin, end);
    left_bytes -= end - begin;
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
  ForEachPart(fd.get(),
              [&](uint64_t begin, uint64_t end) { Prefetch(fd.get(), begin, end - begin); });
  return Status::Ok();
}

void AwaitPrefetched(int fd) {
  uint64_t part_begin = 0;
  uint64_t part_end = 0;
  ForEachPart(fd, [&](uint64_t begin, uint64_t end) {
    part_begin = begin;
    part_end = end;
  });
  uint64_t begin = 0;
  uint64_t end = part_begin;
  uint64_t last_end = 0;
  while (FindData(fd, end, part_end, &begin, &end)) last_end = end;
  if (last_end == 0) return;
  char last = 0;
  size_t read_bytes = 0;
  // A failure comes again when the content is read.
  static_cast<void>(Pread(fd, &last, sizeof(last), last_end - 1, &read_bytes));
}

}  // namespace engine_race::sys

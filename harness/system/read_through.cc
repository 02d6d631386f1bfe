#include "harness/system/read_through.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/parallel.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
namespace sys = engine_race::sys;

using engine_race::Code;
using engine_race::Status;

constexpr uint64_t kReadBytes = uint64_t{1} << 20;
// The most bytes of a file that one thread reads in a row.
constexpr uint64_t kPieceBytes = 64 * kReadBytes;
// Reads in flight at once.
constexpr uint32_t kThreads = 8;

struct Piece {
  std::string path;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Adds the whole MiB of a file, as far as they have data. Reading a hole takes the processor's time
// alone.
void AddPiecesOf(const std::string& path, std::vector<Piece>* pieces) {
  engine_race::UniqueFd fd;
  uint64_t size_bytes = 0;
  if (!sys::OpenAt(AT_FDCWD, path, O_RDONLY, 0, &fd).ok()) return;
  if (!sys::FileSize(fd.get(), &size_bytes).ok()) return;
  const uint64_t whole_bytes = size_bytes / kReadBytes * kReadBytes;
  uint64_t end = 0;
  while (end < whole_bytes) {
    const off_t data = lseek(fd.get(), static_cast<off_t>(end), SEEK_DATA);
    if (data < 0) return;
    const off_t hole = lseek(fd.get(), data, SEEK_HOLE);
    if (hole <= data) return;
    uint64_t begin = std::max(end, static_cast<uint64_t>(data) / kReadBytes * kReadBytes);
    end = std::min(whole_bytes, engine_race::RoundUp(static_cast<uint64_t>(hole), kReadBytes));
    for (; begin < end; begin += kPieceBytes) {
      pieces->push_back({path, begin, std::min(begin + kPieceBytes, end)});
    }
  }
}

std::vector<Piece> PiecesOf(const std::string& dir) {
  std::vector<Piece> pieces;
  std::error_code error;
  // An error ends the walk: `at` is the end then.
  for (fs::recursive_directory_iterator at(dir, error), end; at != end; at.increment(error)) {
    std::error_code gone;
    if (at->is_regular_file(gone)) AddPiecesOf(at->path().string(), &pieces);
  }
  return pieces;
}

Status ReadPiece(const Piece& piece, char* buffer) {
  engine_race::UniqueFd fd;
  Status opened = sys::OpenAt(AT_FDCWD, piece.path, O_RDONLY | O_DIRECT, 0, &fd);
  if (opened.code() == Code::kNotSupported) {
    opened = sys::OpenAt(AT_FDCWD, piece.path, O_RDONLY, 0, &fd);
  }
  if (!opened.ok()) return fs::exists(piece.path) ? opened : Status::Ok();
  for (uint64_t at = piece.begin; at < piece.end; at += kReadBytes) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::PreadFull(fd.get(), buffer, kReadBytes, at));
  }
  return Status::Ok();
}

}  // namespace

Status ReadThrough(const std::string& dir, uint64_t* read_bytes) {
  *read_bytes = 0;
  const std::vector<Piece> pieces = PiecesOf(dir);
  // Relaxed: joining the threads orders all.
  std::atomic<size_t> next{0};
  ENGINE_RACE_RETURN_IF_ERROR(engine_race::RunParallel("read-through", kThreads, [&](uint32_t) {
    engine_race::Region buffer;
    ENGINE_RACE_RETURN_IF_ERROR(
        engine_race::Region::Allocate(kReadBytes, /*huge_pages=*/false, &buffer));
    size_t at = next.fetch_add(1, std::memory_order_relaxed);
    for (; at < pieces.size(); at = next.fetch_add(1, std::memory_order_relaxed)) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadPiece(pieces[at], buffer.data()));
    }
    return Status::Ok();
  }));
  for (const Piece& piece : pieces) *read_bytes += piece.end - piece.begin;
  return Status::Ok();
}

}  // namespace harness

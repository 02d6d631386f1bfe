#include "harness/system/read_through.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kAlignment = 4096;
// Reads in flight at once.
constexpr int kThreads = 8;

struct Piece {
  std::string path;
  uint64_t begin;
};

// One thread reads so many bytes of a file.
constexpr uint64_t kPieceBytes = uint64_t{64} << 20;

std::vector<Piece> PiecesOf(const std::string& dir) {
  std::vector<Piece> pieces;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(dir, error)) {
    if (!entry.is_regular_file(error)) continue;
    const uint64_t bytes = entry.file_size(error);
    for (uint64_t begin = 0; begin < bytes; begin += kPieceBytes) {
      pieces.push_back({entry.path().string(), begin});
    }
  }
  return pieces;
}

uint64_t ReadPiece(const Piece& piece, char* buffer) {
  int fd = open(piece.path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd < 0) fd = open(piece.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  uint64_t done = 0;
  while (done < kPieceBytes) {
    const ssize_t got = pread(fd, buffer, kReadBytes, static_cast<off_t>(piece.begin + done));
    if (got != static_cast<ssize_t>(kReadBytes)) break;
    done += kReadBytes;
  }
  close(fd);
  return done;
}

}  // namespace

uint64_t ReadThrough(const std::string& dir) {
  const std::vector<Piece> pieces = PiecesOf(dir);
  // Relaxed, both: joining the threads orders the sum.
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> bytes{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const std::unique_ptr<char, decltype(&std::free)> buffer(
          static_cast<char*>(std::aligned_alloc(kAlignment, kReadBytes)), &std::free);
      if (buffer == nullptr) return;
      size_t at = next.fetch_add(1, std::memory_order_relaxed);
      for (; at < pieces.size(); at = next.fetch_add(1, std::memory_order_relaxed)) {
        bytes.fetch_add(ReadPiece(pieces[at], buffer.get()), std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return bytes.load(std::memory_order_relaxed);
}

}  // namespace harness

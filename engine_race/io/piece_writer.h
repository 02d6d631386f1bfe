// Writes several pieces of direct files at once, by Linux native asynchronous I/O: records that
// fill dead slots lie in many pieces, and one device write after the other would leave the device
// idle.
//
// io_uring would not do. Its requests outlive a killed process, so a late write could reach a file
// after the next process has opened it. The end of a process waits for requests of this kind.
//
// Where the kernel has no such calls, or a few threads use them already, the pieces are written one
// after the other. So are those of buffered files, which the kernel would not write at once either.
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_IO_PIECE_WRITER_H_
#define ENGINE_RACE_IO_PIECE_WRITER_H_

#include <linux/aio_abi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"

namespace engine_race::io {

struct WriteRequest {
  const File* file = nullptr;
  // On a direct file address, size and offset are multiples of kIoAlignment.
  const char* data = nullptr;
  size_t size_bytes = 0;
  uint64_t offset = 0;
};

class PieceWriter {
 public:
  PieceWriter() = default;
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;
  // Takes tens of milliseconds where pieces were written at once.
  ~PieceWriter();

  // Returns when no request is under way any more. On a failure, that of the first request in their
  // order that failed: any of the others may have been written or not. Errors are File::Write's.
  Status Write(std::span<const WriteRequest> requests);

 private:
  // More threads than these keep a device busy with one write each.
  static constexpr uint32_t kMaxContexts = 8;

  bool Take(aio_context_t* context);
  void GiveBack(aio_context_t context);

  std::mutex mutex_;
  // Under mutex_: contexts that no thread uses, and how many there are or may still be made.
  std::array<aio_context_t, kMaxContexts> idle_ = {};
  uint32_t idle_count_ = 0;
  uint32_t unmade_count_ = kMaxContexts;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_PIECE_WRITER_H_

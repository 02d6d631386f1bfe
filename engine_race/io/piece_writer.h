// Writes several pieces of direct files at once, by Linux native asynchronous I/O: records that
// fill dead slots lie in many pieces, and one device write after the other would leave the device
// idle.
//
// A request may outlive a killed process for a moment, where somebody else holds the memory of that
// process: a child between vfork and exec, or a reader of /proc. It holds its open file, too. So
// each writer takes the locks of its files first, and waits until no request of a former process
// holds them. Requests of io_uring hold no lock in such a way.
//
// Where the kernel has no such calls or locks, where a file is buffered, or where a few threads use
// the calls already, the pieces are written one after the other.
//
// Thread safety: Write from any thread. Owner of the locks: the destructor drops them, in the
// process that took them.
#ifndef ENGINE_RACE_IO_PIECE_WRITER_H_
#define ENGINE_RACE_IO_PIECE_WRITER_H_

#include <linux/aio_abi.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

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

  // Before the process first writes to the files, which are all that it will write to, and which
  // outlive this: waits until no request of a killed process may reach them. Without `at_once`
  // pieces are written one after the other. kIOError: after ten seconds somebody still has the lock
  // of a file.
  Status Init(std::span<const File* const> files, bool at_once);

  // Returns when no request is under way any more. On a failure, that of the first request in their
  // order that failed: any of the others may have been written or not. Errors are File::Write's.
  Status Write(std::span<const WriteRequest> requests);

 private:
  // More threads than these keep a device busy with one write each.
  static constexpr uint32_t kMaxContexts = 8;

  bool Take(aio_context_t* context);
  void GiveBack(aio_context_t context);

  // The files that this process has locked, and the process.
  std::vector<const File*> locked_;
  pid_t owner_ = 0;
  std::mutex mutex_;
  // Under mutex_: contexts that no thread uses, and how many may still be made.
  std::array<aio_context_t, kMaxContexts> idle_ = {};
  uint32_t idle_count_ = 0;
  uint32_t unmade_count_ = 0;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_PIECE_WRITER_H_

// Writes many pieces of direct files together, by Linux native asynchronous I/O.
//
// Records that fill dead slots lie in many pieces. Writing one after the other would leave the
// device idle.
//
// A process normally ends only after its requests. A request outlives its killed process while
// another process holds that memory: a child between vfork and exec, or a reader of /proc. The
// request then keeps its file open, and so keeps the file's lock. Init and Add lock the files, and
// so wait for such requests. Writes never use io_uring: the end of a process does not wait for its
// requests.
//
// Pieces are written one after the other where the kernel lacks these calls or locks, and where a
// file is buffered. So are those of further threads while kMaxContexts threads write together.
//
// Thread safety: Add and Write from any thread; Init before them. Owns the locks: the destructor
// drops them in the process that took them.
#ifndef ENGINE_RACE_IO_PIECE_WRITER_H_
#define ENGINE_RACE_IO_PIECE_WRITER_H_

#include <linux/aio_abi.h>
#include <sys/types.h>
#include <unistd.h>

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
  // Takes tens of milliseconds if pieces were submitted together: the kernel ends contexts slowly.
  ~PieceWriter();

  // Before this process writes to the files, which must outlive this object. Waits until no request
  // of a killed process can reach a direct file. Takes the locks also without `asynchronous`: a
  // former process may have written asynchronously. Without it, Write writes one piece after the
  // other. kIOError: another open holds a lock for more than ten seconds.
  Status Init(std::span<const File* const> files, bool asynchronous);
  // Init for one more file.
  Status Add(const File& file);

  // Accepts only files of Init and Add. Returns once no request is in flight. On failure it returns
  // the error of the first failed request; any other request may have been written. Errors are
  // those of File::Write. kIOError "cannot be awaited": requests may still be in flight, and the
  // data must stay unchanged.
  Status Write(std::span<const WriteRequest> requests);

 private:
  // With more threads than this, one write by each keeps the device busy.
  static constexpr uint32_t kMaxContexts = 8;

  bool TakeContext(aio_context_t* context);
  void ReturnContext(aio_context_t context);

  // The process that takes the locks.
  const pid_t owner_pid_ = ::getpid();
  std::mutex mutex_;
  // Guarded by mutex_: files whose locks this object holds, contexts that no thread uses, and how
  // many more may be created. A context that failed is not replaced.
  std::vector<const File*> locked_;
  std::array<aio_context_t, kMaxContexts> idle_ = {};
  uint32_t idle_count_ = 0;
  uint32_t creatable_count_ = kMaxContexts;
  bool may_submit_ = false;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_PIECE_WRITER_H_

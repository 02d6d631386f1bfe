// A ring of io_uring, set up with the best that the kernel has, and what is registered with it.
//
// Internal to io/. Owner of the ring; one thread at a time, for a single-thread ring the one that
// called Enable, but for the destructor and CloseAndWait. The destructor waits for nothing: of all
// that was started, completions must have been taken before, or CloseAndWait called.
#ifndef ENGINE_RACE_IO_URING_RING_H_
#define ENGINE_RACE_IO_URING_RING_H_

#include <liburing.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/read_queue.h"

namespace engine_race::io {

class UringRing {
 public:
  UringRing() = default;
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  ~UringRing();

  // kNotSupported when the kernel refuses, unless it is short of memory or descriptors just now.
  // Registration that is refused is done without.
  Status SetUp(const ReadQueueOptions& options);

  // Binds a single-thread ring to the calling thread, the first time; before anything is started.
  Status Enable();

  // Makes `sqe` the read of `size_bytes` at `offset` into `buffer`.
  void PrepareRead(io_uring_sqe* sqe, int fd, void* buffer, uint32_t size_bytes, uint64_t offset);

  // Entries that are in the submission queue and not the kernel's yet.
  uint32_t QueuedCount() const;
  // Takes the first of these out, and answers its user data. Not with sqpoll, whose thread reads
  // the queue at any time.
  uint64_t TakeBackFirst();
  // Takes all of them out.
  void DropQueued();

  // Starts the queued requests and waits until `wait_count` completions lie in the ring. The kernel
  // also finishes the work that it has left to this thread. Makes at most one system call, and none
  // when there is nothing to do. After an errno nothing was started. After 0 some of the queue may
  // have to be started again.
  int Enter(uint32_t wait_count);

  // Whether CloseAndWait may be called: for every ring whose completions may need calls of Enter.
  bool may_close() const { return end_.valid(); }
  // For another thread that must get rid of a single-thread ring, and where Enter is refused.
  // Closes the ring, and returns when the kernel has ended every request. Nothing but the
  // destructor may follow.
  void CloseAndWait();

  // Asks the kernel to cancel requests that it has not begun. Their completions still come.
  void CancelAll();

  io_uring* get() { return &ring_; }
  bool sqpoll() const { return (ring_.flags & IORING_SETUP_SQPOLL) != 0; }

 private:
  struct Buffer {
    const char* begin = nullptr;
    const char* end = nullptr;
    uint32_t index = 0;
  };
  static constexpr int32_t kNoIndex = -1;

  // An errno, or 0.
  int Initialize(uint32_t depth, uint32_t flags);
  // Initialize, and for a ring that may need calls of Enter the pipe of CloseAndWait. EINVAL
  // without the pipe.
  int Make(const ReadQueueOptions& options, uint32_t flags);
  void Close();
  void RegisterBuffers(std::span<const std::span<char>> buffers);
  // `files` when the kernel takes them, and `end` behind them unless that is -1; whether `end` is
  // registered now.
  bool RegisterFiles(std::span<const int> files, int end);
  int32_t BufferIndex(const char* begin, uint32_t size_bytes) const;
  int32_t FileIndex(int fd) const;

  io_uring ring_{};
  bool made_ = false;
  bool enabled_ = false;
  std::vector<Buffer> buffers_;  // by address
  bool has_files_ = false;
  std::vector<int32_t> file_indexes_;  // by descriptor
  // Of a ring with a flag of kNeedsEnter: the read end of a pipe whose other end only the ring's
  // table of files holds. The kernel lets go of that when no request is left.
  UniqueFd end_;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_URING_RING_H_

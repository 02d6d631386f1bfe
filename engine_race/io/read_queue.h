// Many reads in flight from one thread: the interface that index builds and scans stand on.
//
// A queue belongs to one thread at a time. It may be handed from one to another between calls,
// unless it was made for a single thread. Reads in flight at a hand-over may take a few
// milliseconds longer while the thread that started them computes. Submit never blocks on the
// device, but a back end may block for as long as the kernel takes to queue. Wait blocks. Neither
// allocates anything but room in *completions. Buffers must stay valid until their completion has
// been returned. The destructor waits for the reads in flight, also where the system refuses the
// calls that would wait for them.
#ifndef ENGINE_RACE_IO_READ_QUEUE_H_
#define ENGINE_RACE_IO_READ_QUEUE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race::io {

struct ReadRequest {
  int fd = -1;
  uint32_t size_bytes = 0;
  uint64_t offset = 0;
  // Aligned to kIoAlignment, as are size and offset, when `fd` is direct.
  void* buffer = nullptr;
  // Returned with the completion.
  uint64_t tag = 0;
};

struct ReadCompletion {
  uint64_t tag = 0;
  // 0, or the errno of the failed read.
  int error = 0;
  // Less than asked for only at the end of the file: short transfers are continued inside.
  uint32_t read_bytes = 0;
};

struct ReadQueueOptions {
  IoBackend backend = IoBackend::kAuto;
  // Reads in flight at most, 1 to 65536.
  uint32_t depth = 1;
  // Of io_uring: see Options.
  bool iopoll = false;
  bool sqpoll = false;
  // Told to the kernel ahead where the back end can: memory that requests read into, and files that
  // they read. Requests may use others all the same. Both outlive the queue; the memory's pages are
  // pinned, so it neither is given back to the system nor gets other pages before (madvise).
  std::span<const std::span<char>> buffers = {};
  std::span<const int> files = {};
  // The thread that submits first makes every later call; others may create and destroy the queue
  // (which takes longer there when reads are in flight). io_uring is cheaper then. From a wrong
  // thread reads fail with EEXIST, and Wait with kInvalidArgument.
  bool single_thread = false;
  // Submit may leave the reads to the next Wait, also to one with a min_count of 0. With io_uring
  // this saves a system call when Wait follows Submit at once.
  bool lazy_submit = false;
};

class ReadQueue {
 public:
  virtual ~ReadQueue() = default;

  // kAuto takes the first of io_uring, libaio and psync that can be set up; ProbeReadBackend also
  // tries to read. kNotSupported for a back end that does not work here. Another status when a
  // resource is short.
  static Status Create(const ReadQueueOptions& options, std::unique_ptr<ReadQueue>* queue);

  // The back end that replaces one which no longer works: libaio, then psync, which stays.
  static IoBackend NextBest(IoBackend backend) {
    return backend == IoBackend::kLibaio || backend == IoBackend::kPsync ? IoBackend::kPsync
                                                                         : IoBackend::kLibaio;
  }

  // Create, with libaio or psync in the place of a back end that cannot be set up just now: for
  // want of descriptors, say. *made is the back end of the queue.
  static Status CreateOrNextBest(const ReadQueueOptions& options, std::unique_ptr<ReadQueue>* queue,
                                 IoBackend* made);

  // Starts every request (see lazy_submit). in_flight() + requests.size() must not exceed depth().
  // On failure none of those not yet started is started, and *started tells how many were. Reads
  // that the system refuses as a whole stay in flight: the next Wait says so.
  virtual Status Submit(std::span<const ReadRequest> requests, size_t* started) = 0;

  // Appends finished reads to *completions: at least `min_count` of them, or all when fewer are in
  // flight; 0 polls. A failure is about the queue: the reads that it has not appended stay in
  // flight. kNotSupported: the system refuses this back end's calls.
  virtual Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) = 0;

  virtual const char* name() const = 0;
  uint32_t depth() const { return depth_; }
  uint32_t in_flight() const { return in_flight_; }

 protected:
  explicit ReadQueue(uint32_t depth) : depth_(depth) {}
  // Every Submit begins with the first; every Wait begins with the second and ends with the third.
  Status CheckRoomFor(size_t request_count) const;
  Status ReserveFor(std::vector<ReadCompletion>* completions) const;
  void HandOut(std::vector<ReadCompletion>* ready, std::vector<ReadCompletion>* completions);

  const uint32_t depth_;
  uint32_t in_flight_ = 0;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_READ_QUEUE_H_

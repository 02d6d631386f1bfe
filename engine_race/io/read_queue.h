// Many reads in flight from one thread: the interface that index builds and scans stand on.
//
// A queue belongs to one thread at a time. Submit never blocks on the device (a backend may block
// for as long as the kernel takes to queue); Wait blocks. Buffers must stay valid until their
// completion has been returned. The destructor waits for what is in flight.
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

class ReadQueue {
 public:
  virtual ~ReadQueue() = default;

  // A queue for at most `depth` reads in flight. kAuto takes the best backend whose probe works;
  // asking for one that does not work here is kNotSupported.
  static Status Create(IoBackend backend, uint32_t depth, std::unique_ptr<ReadQueue>* queue);

  // Starts every request. in_flight() + requests.size() must not exceed depth(). On failure none
  // of those not yet started is started, and *started tells how many were.
  virtual Status Submit(std::span<const ReadRequest> requests, size_t* started) = 0;

  // Appends finished reads to *completions: at least `min_count` of them, or all when fewer are in
  // flight; 0 polls.
  virtual Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) = 0;

  virtual const char* name() const = 0;
  uint32_t depth() const { return depth_; }
  uint32_t in_flight() const { return in_flight_; }

 protected:
  explicit ReadQueue(uint32_t depth) : depth_(depth) {}
  const uint32_t depth_;
  uint32_t in_flight_ = 0;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_READ_QUEUE_H_

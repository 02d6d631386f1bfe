// The back ends behind ReadQueue::Create, and the blocking read that they share.
//
// Internal to io/. Each maker answers kNotSupported when its back end does not work here, and
// other failures when there is too little of something.
#ifndef ENGINE_RACE_IO_READ_QUEUE_BACKENDS_H_
#define ENGINE_RACE_IO_READ_QUEUE_BACKENDS_H_

#include <cerrno>
#include <cstdint>
#include <memory>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/io/read_queue.h"

namespace engine_race::io {

Status MakeIoUringQueue(const ReadQueueOptions& options, std::unique_ptr<ReadQueue>* queue);
Status MakeLibaioQueue(uint32_t depth, std::unique_ptr<ReadQueue>* queue);
Status MakePsyncQueue(uint32_t depth, std::unique_ptr<ReadQueue>* queue);

// Whether a call for many reads is refused as a whole, as filters of system calls do. That says
// nothing about a read, and later calls are refused, too.
inline bool IsRefusal(int error) { return error == EPERM || error == EACCES || error == ENOSYS; }
// kNotSupported for a refusal.
Status CallFailed(const char* call, int error);

// How far a read has come through transfers that may each end early. A direct read ends at an
// unaligned offset only at the end of the file, and may not continue from there. A buffered one may
// end anywhere. So both continue from the aligned offset before it. The file has ended when that
// brings nothing new.
struct ReadProgress {
  uint32_t from_bytes = 0;  // where the transfer under way began
  uint32_t done_bytes = 0;  // brought by all transfers together

  // Takes in a transfer's result; true when the read is over.
  bool Advance(uint32_t transferred_bytes, uint32_t size_bytes) {
    const uint32_t reached_bytes = from_bytes + transferred_bytes;
    const bool over = reached_bytes <= done_bytes || reached_bytes >= size_bytes;
    if (reached_bytes > done_bytes) done_bytes = reached_bytes;
    from_bytes = done_bytes - done_bytes % static_cast<uint32_t>(kIoAlignment);
    return over;
  }
};

// Completes `request` with blocking reads, from where `progress` stands.
ReadCompletion ReadBlocking(const ReadRequest& request, ReadProgress progress);

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_READ_QUEUE_BACKENDS_H_

#include "engine_race/io/read_queue.h"

#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/io/read_queue_backends.h"

namespace engine_race::io {

namespace {

constexpr uint32_t kMaxDepth = 65536;

}  // namespace

Status ReadQueue::Create(const ReadQueueOptions& options, std::unique_ptr<ReadQueue>* queue) {
  const uint32_t depth = options.depth;
  if (depth == 0 || depth > kMaxDepth) {
    return Status::InvalidArgument("read queue depth " + std::to_string(depth));
  }
  switch (options.backend) {
    case IoBackend::kLibaio:
      return MakeLibaioQueue(depth, queue);
    case IoBackend::kPsync:
      return MakePsyncQueue(depth, queue);
    case IoBackend::kIoUring:
      return MakeIoUringQueue(options, queue);
    case IoBackend::kAuto: {
      // Containers often refuse io_uring and io_setup. A machine whose aio-max-nr is used up
      // refuses io_setup too.
      ReadQueueOptions best = options;
      best.backend = IoBackend::kIoUring;
      IoBackend made;
      return CreateOrNextBest(best, queue, &made);
    }
  }
  return Status::InvalidArgument("unknown I/O back end");
}

Status ReadQueue::CreateOrNextBest(const ReadQueueOptions& options,
                                   std::unique_ptr<ReadQueue>* queue, IoBackend* made) {
  ReadQueueOptions wanted = options;
  if (wanted.backend == IoBackend::kAuto) wanted.backend = IoBackend::kIoUring;
  Status status = Create(wanted, queue);
  for (const IoBackend next : {IoBackend::kLibaio, IoBackend::kPsync}) {
    if (status.ok() || status.code() == Code::kInvalidArgument) break;
    wanted.backend = next;
    status = Create(wanted, queue);
  }
  *made = wanted.backend;
  return status;
}

Status ReadQueue::CheckRoomFor(size_t request_count) const {
  ENGINE_RACE_ASSERT(in_flight_ <= depth_);
  if (request_count <= depth_ - in_flight_) return Status::Ok();
  return Status::InvalidArgument("more reads than the queue is deep");
}

Status ReadQueue::ReserveFor(std::vector<ReadCompletion>* completions) const {
  try {
    completions->reserve(completions->size() + in_flight_);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("completions of a read queue");
  }
}

void ReadQueue::HandOut(std::vector<ReadCompletion>* ready,
                        std::vector<ReadCompletion>* completions) {
  // ReserveFor made room for as many.
  ENGINE_RACE_ASSERT(ready->size() <= in_flight_);
  ENGINE_RACE_ASSERT(completions->size() + ready->size() <= completions->capacity());
  completions->insert(completions->end(), ready->begin(), ready->end());
  in_flight_ -= static_cast<uint32_t>(ready->size());
  ready->clear();
}

Status CallFailed(const char* call, int error) {
  Status status = Status::FromErrno(call, error);
  return IsRefusal(error) ? status.Reworded(Code::kNotSupported, status.message())
                          : std::move(status);
}

ReadCompletion ReadBlocking(const ReadRequest& request, ReadProgress progress) {
  ReadCompletion completion;
  completion.tag = request.tag;
  bool over = request.size_bytes == 0;
  while (!over) {
    const ssize_t result =
        pread(request.fd, static_cast<char*>(request.buffer) + progress.from_bytes,
              request.size_bytes - progress.from_bytes,
              static_cast<off_t>(request.offset + progress.from_bytes));
    if (result < 0) {
      if (errno == EINTR) continue;
      completion.error = errno;
      break;
    }
    over = progress.Advance(static_cast<uint32_t>(result), request.size_bytes);
  }
  completion.read_bytes = progress.done_bytes;
  return completion;
}

}  // namespace engine_race::io

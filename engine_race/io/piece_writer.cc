#include "engine_race/io/piece_writer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "engine_race/base/clock.h"
#include "engine_race/base/parallel.h"
#include "engine_race/io/aio_calls.h"

namespace engine_race::io {
namespace {

// Requests that one thread has under way.
constexpr size_t kDepth = 32;
constexpr uint64_t kMaxLockWaitNs = uint64_t{10} * 1000 * 1000 * 1000;
constexpr auto kLockRetryDelay = std::chrono::milliseconds(1);

// How requests have ended. kAgain: they are to be written by a call that waits.
constexpr int64_t kAgain = INT64_MIN;
using Results = std::array<int64_t, kDepth>;

// An errno that says nothing of the device. The call that waits has a better answer.
bool MayBeTriedAgain(int64_t result) {
  switch (-result) {
    case EAGAIN:
    case EINTR:
    case EINVAL:
    case EOPNOTSUPP:
    case ENOSPC:
    case EDQUOT:
      return true;
    default:
      return result >= 0;
  }
}

// Writes requests of direct files at once. Returns how many may be under way still: 0, unless the
// kernel does not say how they end.
uint32_t WriteAtOnce(aio_context_t context, std::span<const WriteRequest> requests,
                     Results* results) {
  std::array<iocb, kDepth> blocks;
  std::array<iocb*, kDepth> pending;
  for (size_t i = 0; i < requests.size(); ++i) {
    blocks[i] = iocb{};
    blocks[i].aio_data = i;
    blocks[i].aio_lio_opcode = IOCB_CMD_PWRITE;
    blocks[i].aio_fildes = static_cast<uint32_t>(requests[i].file->fd());
    blocks[i].aio_buf = reinterpret_cast<uint64_t>(requests[i].data);
    blocks[i].aio_nbytes = requests[i].size_bytes;
    blocks[i].aio_offset = static_cast<int64_t>(requests[i].offset);
    pending[i] = &blocks[i];
  }
  const auto count = static_cast<long>(requests.size());
  long begun = 0;
  while (begun < count) {
    const int taken = IoSubmit(context, count - begun, pending.data() + begun);
    if (taken < 0) break;
    begun += taken;
  }
  std::array<io_event, kDepth> events;
  while (begun > 0) {
    const int got = IoGetEvents(context, begun, kDepth, events.data());
    if (got <= 0) return static_cast<uint32_t>(begun);
    begun -= got;
    for (size_t i = 0; i < static_cast<size_t>(got); ++i) {
      const size_t request = events[i].data;
      const bool is_whole = events[i].res == static_cast<int64_t>(requests[request].size_bytes);
      (*results)[request] =
          !is_whole && MayBeTriedAgain(events[i].res) ? kAgain : int64_t{events[i].res};
    }
  }
  return 0;
}

// Beyond the limit on the size of files the kernel ends a process that submits a write.
bool AreWithinLimit(std::span<const WriteRequest> requests) {
  uint64_t end = 0;
  for (const WriteRequest& request : requests) {
    end = std::max(end, request.offset + request.size_bytes);
  }
  return sys::CheckFileSizeLimit(end).ok();
}

}  // namespace

PieceWriter::~PieceWriter() {
  std::atomic<uint32_t> next{0};
  static_cast<void>(RunParallel("er-aio", idle_count_, [&](uint32_t) {
    for (uint32_t i; (i = next.fetch_add(1)) < idle_count_;)
      static_cast<void>(IoDestroy(idle_[i], 0));
    return Status::Ok();
  }));
  // Closing the files alone would leave the locks to forked children.
  if (owner_ != ::getpid()) return;
  for (const File* file : locked_) sys::UnlockFile(file->fd());
}

Status PieceWriter::Init(std::span<const File* const> files, bool at_once) {
  owner_ = ::getpid();
  locked_.reserve(files.size());
  const uint64_t began_ns = MonotonicNs();
  for (const File* file : files) {
    if (!file->direct()) {
      at_once = false;
      continue;
    }
    Status locked;
    while (true) {
      locked = sys::LockFile(file->fd(), sys::LockKind::kExclusive);
      if (locked.code() != Code::kIOError || MonotonicNs() - began_ns > kMaxLockWaitNs) break;
      std::this_thread::sleep_for(kLockRetryDelay);
    }
    if (locked.code() == Code::kNotSupported) {
      at_once = false;
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(locked.Prefixed(file->name() + ": "));
    locked_.push_back(file);
  }
  unmade_count_ = at_once ? kMaxContexts : 0;
  return Status::Ok();
}

Status PieceWriter::Write(std::span<const WriteRequest> requests) {
  while (!requests.empty()) {
    const std::span<const WriteRequest> some = requests.first(std::min(requests.size(), kDepth));
    requests = requests.subspan(some.size());
    Results results;
    results.fill(kAgain);
    aio_context_t context = 0;
    if (some.size() > 1 && AreWithinLimit(some) && Take(&context)) {
      const uint32_t in_flight_count = WriteAtOnce(context, some, &results);
      if (in_flight_count == 0) {
        GiveBack(context);
      } else if (!IoDestroy(context, in_flight_count)) {
        return Status::IOError(some[0].file->name() +
                               ": writes are under way that cannot be awaited");
      }
    }
    for (size_t i = 0; i < some.size(); ++i) {
      const WriteRequest& request = some[i];
      if (results[i] == kAgain) {
        ENGINE_RACE_RETURN_IF_ERROR(
            request.file->Write(request.data, request.size_bytes, request.offset));
      } else if (results[i] < 0) {
        return Status::FromErrno("write " + request.file->name(), static_cast<int>(-results[i]),
                                 sys::PathOf(request.file->fd()));
      }
    }
  }
  return Status::Ok();
}

bool PieceWriter::Take(aio_context_t* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_count_ > 0) {
    *context = idle_[--idle_count_];
    return true;
  }
  if (unmade_count_ == 0) return false;
  *context = 0;
  if (syscall(SYS_io_setup, kDepth, context) == 0) {
    --unmade_count_;
    return true;
  }
  // With EAGAIN the system has given out all that it has. Any other refusal is for good.
  if (errno != EAGAIN && errno != ENOMEM) unmade_count_ = 0;
  return false;
}

void PieceWriter::GiveBack(aio_context_t context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_[idle_count_++] = context;
}

}  // namespace engine_race::io

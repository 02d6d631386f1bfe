#include "engine_race/io/piece_writer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "engine_race/base/clock.h"
#include "engine_race/base/parallel.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/aio_calls.h"

namespace engine_race::io {
namespace {

// Requests of one submission.
constexpr size_t kDepth = 32;
constexpr uint64_t kMaxLockWaitNs = uint64_t{10} * 1000 * 1000 * 1000;
constexpr auto kLockRetryDelay = std::chrono::milliseconds(1);

// kAgain: a blocking write must follow. Any other value is the kernel's result.
constexpr int64_t kAgain = INT64_MIN;
using Results = std::array<int64_t, kDepth>;

// Whether a blocking write may follow: the write was short, or its error is no I/O error of the
// device. The blocking write then continues, or reports why it cannot.
bool MayRetryBlocking(int64_t result) {
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

// Submits writes of direct files and waits for them. Returns how many may still be in flight: more
// than 0 only if io_getevents fails.
uint32_t SubmitAndWait(aio_context_t context, std::span<const WriteRequest> requests,
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
  long in_flight = 0;
  while (in_flight < count) {
    const int taken = IoSubmit(context, count - in_flight, pending.data() + in_flight);
    if (taken < 0) break;
    in_flight += taken;
  }
  std::array<io_event, kDepth> events;
  while (in_flight > 0) {
    const int got = IoGetEvents(context, in_flight, kDepth, events.data());
    if (got <= 0) return static_cast<uint32_t>(in_flight);
    in_flight -= got;
    for (size_t i = 0; i < static_cast<size_t>(got); ++i) {
      const size_t request = events[i].data;
      const bool is_whole = events[i].res == static_cast<int64_t>(requests[request].size_bytes);
      (*results)[request] =
          !is_whole && MayRetryBlocking(events[i].res) ? kAgain : int64_t{events[i].res};
    }
  }
  return 0;
}

// Submitting a write past RLIMIT_FSIZE would kill the process with SIGXFSZ.
bool AreWithinLimit(std::span<const WriteRequest> requests) {
  uint64_t end = 0;
  for (const WriteRequest& request : requests) {
    end = std::max(end, request.offset + request.size_bytes);
  }
  return sys::CheckFileSizeLimit(end).ok();
}

}  // namespace

PieceWriter::~PieceWriter() {
  if (owner_pid_ != ::getpid()) return;
  std::atomic<uint32_t> next{0};
  static_cast<void>(RunParallel("er-aio", idle_count_, [&](uint32_t) {
    for (uint32_t i; (i = next.fetch_add(1)) < idle_count_;)
      static_cast<void>(IoDestroy(idle_[i], 0));
    return Status::Ok();
  }));
  // Forked children would keep the locks if this only closed the files.
  for (const File* file : locked_) sys::UnlockFile(file->fd());
}

Status PieceWriter::Init(std::span<const File* const> files, bool asynchronous) {
  may_submit_ = asynchronous;
  for (const File* file : files) ENGINE_RACE_RETURN_IF_ERROR(Add(*file));
  return Status::Ok();
}

Status PieceWriter::Add(const File& file) {
  const auto write_in_turn = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    may_submit_ = false;
    return Status::Ok();
  };
  if (!file.direct()) return write_in_turn();
  {
    // Before the lock is taken: one that is not noted would outlive this object in a child.
    const std::lock_guard<std::mutex> lock(mutex_);
    locked_.push_back(&file);
  }
  const uint64_t began_ns = MonotonicNs();
  Status locked;
  while (true) {
    locked = sys::LockFile(file.fd(), sys::LockKind::kExclusive);
    const bool is_held = locked.code() == Code::kIOError && locked.error() == EAGAIN;
    if (!is_held || MonotonicNs() - began_ns > kMaxLockWaitNs) break;
    std::this_thread::sleep_for(kLockRetryDelay);
  }
  if (locked.code() == Code::kNotSupported) return write_in_turn();
  return locked.Prefixed(file.name() + ": ");
}

Status PieceWriter::Write(std::span<const WriteRequest> requests) {
  while (!requests.empty()) {
    const std::span<const WriteRequest> batch = requests.first(std::min(requests.size(), kDepth));
    requests = requests.subspan(batch.size());
    Results results;
    results.fill(kAgain);
    aio_context_t context = 0;
    if (batch.size() > 1 && AreWithinLimit(batch) && TakeContext(&context)) {
      const uint32_t in_flight_count = SubmitAndWait(context, batch, &results);
      if (in_flight_count == 0) {
        ReturnContext(context);
      } else if (!IoDestroy(context, in_flight_count)) {
        return Status::IOError(batch[0].file->name() +
                               ": requests are in flight and cannot be awaited");
      }
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      const WriteRequest& request = batch[i];
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

bool PieceWriter::TakeContext(aio_context_t* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!may_submit_) return false;
  if (idle_count_ > 0) {
    *context = idle_[--idle_count_];
    return true;
  }
  if (creatable_count_ == 0) return false;
  *context = 0;
  if (IoSetup(kDepth, context) == 0) {
    --creatable_count_;
    return true;
  }
  // EAGAIN: all contexts of the system are in use, and later calls may succeed. Any error but
  // EAGAIN and ENOMEM is final.
  if (errno != EAGAIN && errno != ENOMEM) creatable_count_ = 0;
  return false;
}

void PieceWriter::ReturnContext(aio_context_t context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_[idle_count_++] = context;
}

}  // namespace engine_race::io

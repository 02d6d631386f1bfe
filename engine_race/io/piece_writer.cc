#include "engine_race/io/piece_writer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>

#include "engine_race/base/parallel.h"
#include "engine_race/io/aio_calls.h"

namespace engine_race::io {
namespace {

// Requests that one thread has under way.
constexpr size_t kDepth = 64;

// Writes requests of direct files at once. *written: those that were written whole. Returns how
// many requests may be under way still: 0, unless the kernel does not say how they end.
uint32_t WriteAtOnce(aio_context_t context, std::span<const WriteRequest> requests,
                     std::bitset<kDepth>* written) {
  std::array<iocb, kDepth> blocks;
  std::array<iocb*, kDepth> pending;
  long count = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].file->direct()) continue;
    blocks[i] = iocb{};
    blocks[i].aio_data = i;
    blocks[i].aio_lio_opcode = IOCB_CMD_PWRITE;
    blocks[i].aio_fildes = static_cast<uint32_t>(requests[i].file->fd());
    blocks[i].aio_buf = reinterpret_cast<uint64_t>(requests[i].data);
    blocks[i].aio_nbytes = requests[i].size_bytes;
    blocks[i].aio_offset = static_cast<int64_t>(requests[i].offset);
    pending[static_cast<size_t>(count++)] = &blocks[i];
  }
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
    for (int i = 0; i < got; ++i) {
      const size_t request = events[static_cast<size_t>(i)].data;
      const int64_t result = events[static_cast<size_t>(i)].res;
      (*written)[request] = result == static_cast<int64_t>(requests[request].size_bytes);
    }
  }
  return 0;
}

}  // namespace

PieceWriter::~PieceWriter() {
  std::atomic<uint32_t> next{0};
  static_cast<void>(RunParallel("er-aio", idle_count_, [&](uint32_t) {
    for (uint32_t i; (i = next.fetch_add(1)) < idle_count_;) IoDestroy(idle_[i], 0);
    return Status::Ok();
  }));
}

Status PieceWriter::Write(std::span<const WriteRequest> requests) {
  while (!requests.empty()) {
    const std::span<const WriteRequest> some = requests.first(std::min(requests.size(), kDepth));
    requests = requests.subspan(some.size());
    std::bitset<kDepth> written;
    aio_context_t context = 0;
    if (some.size() > 1 && Take(&context)) {
      const uint32_t in_flight_count = WriteAtOnce(context, some, &written);
      if (in_flight_count == 0) {
        GiveBack(context);
      } else {
        IoDestroy(context, in_flight_count);
      }
    }
    for (size_t i = 0; i < some.size(); ++i) {
      if (written[i]) continue;
      ENGINE_RACE_RETURN_IF_ERROR(
          some[i].file->Write(some[i].data, some[i].size_bytes, some[i].offset));
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
  if (syscall(SYS_io_setup, kDepth, context) != 0) {
    // The system refuses it, or has given out all it has. It is not asked again.
    unmade_count_ = 0;
    return false;
  }
  --unmade_count_;
  return true;
}

void PieceWriter::GiveBack(aio_context_t context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_[idle_count_++] = context;
}

}  // namespace engine_race::io

#include "engine_race/io/aio_calls.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

namespace engine_race::io {
namespace {

constexpr long kDrainBatch = 64;

// The ring of completions that the kernel keeps at the address of a context. The kernel adds an
// event at its tail once the request has ended.
struct EventRing {
  uint32_t id;
  uint32_t event_count;
  uint32_t head;
  uint32_t tail;
  uint32_t magic;
  uint32_t compatible_features;
  uint32_t incompatible_features;
};
constexpr uint32_t kEventRingMagic = 0xa10a10a1;

// Waits, without a system call of aio, until `count` completions are in the ring. False: the ring
// has an unknown layout.
bool AwaitEvents(aio_context_t context, uint32_t count) {
  auto* const ring = reinterpret_cast<EventRing*>(context);
  if (ring->magic != kEventRingMagic || ring->incompatible_features != 0) return false;
  while (true) {
    // Acquire pairs with the kernel's release of the tail: the effects of the requests are visible.
    const uint32_t tail = std::atomic_ref(ring->tail).load(std::memory_order_acquire);
    const uint32_t ended_count = (tail + ring->event_count - ring->head) % ring->event_count;
    if (ended_count >= count) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

int IoSetup(uint32_t depth, aio_context_t* context) {
  return static_cast<int>(syscall(SYS_io_setup, depth, context));
}

// Retries EINTR, which comes before any request is taken.
int IoSubmit(aio_context_t context, long count, iocb** blocks) {
  while (true) {
    const long taken = syscall(SYS_io_submit, context, count, blocks);
    if (taken > 0) return static_cast<int>(taken);
    if (taken == 0) errno = EAGAIN;
    if (taken == 0 || errno != EINTR) return -1;
  }
}

// Retries EINTR, which comes before any event has been taken.
int IoGetEvents(aio_context_t context, long min_count, long max_count, io_event* events) {
  while (true) {
    const long got = syscall(SYS_io_getevents, context, min_count, max_count, events, nullptr);
    if (got >= 0 || errno != EINTR) return static_cast<int>(got);
  }
}

bool IoDestroy(aio_context_t context, uint32_t in_flight_count) {
  std::array<io_event, kDrainBatch> events;
  bool has_waited = true;
  while (in_flight_count > 0) {
    const int got = IoGetEvents(context, 1, kDrainBatch, events.data());
    if (got <= 0) {
      // The call below waits too, unless it is refused as well.
      has_waited = AwaitEvents(context, in_flight_count);
      break;
    }
    in_flight_count -= std::min(in_flight_count, static_cast<uint32_t>(got));
  }
  return syscall(SYS_io_destroy, context) == 0 || has_waited;
}

}  // namespace engine_race::io

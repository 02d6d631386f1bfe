// The functions of liburing, see system_calls.h.
#include <liburing.h>
#include <sys/uio.h>

#include <cerrno>

#include "test/faults/system_calls.h"
#include "test/faults/system_calls_dispatch.h"

extern "C" {
int __real_io_uring_queue_init_params(unsigned count, io_uring* ring, io_uring_params* params);
int __real_io_uring_register_buffers(io_uring* ring, const iovec* vectors, unsigned count);
int __real_io_uring_register_files(io_uring* ring, const int* files, unsigned count);
int __real_io_uring_enable_rings(io_uring* ring);
int __real_io_uring_submit_and_wait(io_uring* ring, unsigned wait_count);
unsigned __real_io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** entries, unsigned count);
}

namespace engine_race::test {
namespace {

// liburing's way to say errno, and back.
long FromNegative(int result) {
  if (result >= 0) return result;
  errno = -result;
  return -1;
}
int ToNegative(long result) { return result >= 0 ? static_cast<int>(result) : -errno; }

}  // namespace

long SystemCall::ProceedWithRing() const {
  const unsigned unsigned_count = static_cast<unsigned>(count);
  switch (kind) {
    case CallKind::kUringSetup:
      return FromNegative(__real_io_uring_queue_init_params(unsigned_count, ring, params));
    case CallKind::kUringRegister:
      return FromNegative(vectors != nullptr
                              ? __real_io_uring_register_buffers(ring, vectors, unsigned_count)
                              : __real_io_uring_register_files(ring, files, unsigned_count));
    case CallKind::kUringEnable:
      return FromNegative(__real_io_uring_enable_rings(ring));
    case CallKind::kUringEnter:
      return FromNegative(__real_io_uring_submit_and_wait(ring, static_cast<unsigned>(min_count)));
    default:
      return __real_io_uring_peek_batch_cqe(ring, entries, unsigned_count);
  }
}

namespace {

SystemCall CallOnRing(CallKind kind, io_uring* ring) {
  SystemCall call = CallOn(kind, -1);
  call.ring = ring;
  return call;
}

}  // namespace
}  // namespace engine_race::test

using engine_race::test::CallKind;
using engine_race::test::CallOnRing;
using engine_race::test::Dispatch;
using engine_race::test::SystemCall;
using engine_race::test::ToNegative;

extern "C" {

int __wrap_io_uring_queue_init_params(unsigned count, io_uring* ring, io_uring_params* params) {
  SystemCall call = CallOnRing(CallKind::kUringSetup, ring);
  call.count = count;
  call.params = params;
  return ToNegative(Dispatch(call));
}

int __wrap_io_uring_register_buffers(io_uring* ring, const iovec* vectors, unsigned count) {
  SystemCall call = CallOnRing(CallKind::kUringRegister, ring);
  call.vectors = vectors;
  call.count = count;
  return ToNegative(Dispatch(call));
}

int __wrap_io_uring_register_files(io_uring* ring, const int* files, unsigned count) {
  SystemCall call = CallOnRing(CallKind::kUringRegister, ring);
  call.files = files;
  call.count = count;
  return ToNegative(Dispatch(call));
}

int __wrap_io_uring_enable_rings(io_uring* ring) {
  SystemCall call = CallOnRing(CallKind::kUringEnable, ring);
  return ToNegative(Dispatch(call));
}

int __wrap_io_uring_submit_and_wait(io_uring* ring, unsigned wait_count) {
  SystemCall call = CallOnRing(CallKind::kUringEnter, ring);
  call.min_count = wait_count;
  return ToNegative(Dispatch(call));
}

unsigned __wrap_io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** entries, unsigned count) {
  SystemCall call = CallOnRing(CallKind::kUringReap, ring);
  call.entries = entries;
  call.count = count;
  return static_cast<unsigned>(Dispatch(call));
}

}  // extern "C"

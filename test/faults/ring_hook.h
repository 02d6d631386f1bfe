// A hook with which a test says what the kernel does about io_uring and libaio.
//
// Set up, and read, while no other thread makes calls. Only calls on rings must come from one
// thread at a time.
#ifndef TEST_FAULTS_RING_HOOK_H_
#define TEST_FAULTS_RING_HOOK_H_

#include <liburing.h>

#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "test/faults/system_calls.h"

namespace engine_race::test {

class RingHook : public SystemCallHook {
 public:
  // Errno of calls that are refused, always.
  std::map<CallKind, int> refused;
  // Flags of IORING_SETUP_* that the kernel does not know, and those with which it refuses a ring.
  uint32_t unknown_flags = 0;
  uint32_t forbidden_flags = 0;
  // Flags that are as good as there: the ring is made without.
  uint32_t pretended_flags = 0;
  // Called before io_uring_submit_and_wait with the number of this call, from 1, and of entries
  // queued: an errno instead of the call, or 0.
  std::function<int(int, unsigned)> on_enter;
  // Changes a completion.
  std::function<void(const io_uring& ring, io_uring_cqe* completion)> on_completion;

  // Everything that passed so far.
  std::vector<uint32_t> setup_flags;  // asked for, by set-up
  std::vector<uint32_t> made_flags;   // of rings that were made
  std::map<CallKind, int> counts;     // calls, by kind
  std::vector<io_uring_sqe> submitted_entries;

  long OnCall(SystemCall* call) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++counts[call->kind];
    }
    if (const auto found = refused.find(call->kind); found != refused.end()) {
      return Refuse(found->second);
    }
    switch (call->kind) {
      case CallKind::kUringSetup:
        return SetUp(call);
      case CallKind::kUringEnter:
        return Enter(call);
      case CallKind::kUringReap:
        return Reap(call);
      default:
        return call->Proceed();
    }
  }

 private:
  static long Refuse(int error) {
    errno = error;
    return -1;
  }

  long SetUp(SystemCall* call) {
    const uint32_t flags = call->params->flags;
    setup_flags.push_back(flags);
    if ((flags & unknown_flags) != 0) return Refuse(EINVAL);
    if ((flags & forbidden_flags) != 0) return Refuse(EPERM);
    call->params->flags &= ~pretended_flags;
    const long result = call->Proceed();
    if (result == 0) made_flags.push_back(flags);
    return result;
  }

  long Enter(SystemCall* call) {
    const unsigned queued_count = io_uring_sq_ready(call->ring);
    const int error = on_enter ? on_enter(counts[CallKind::kUringEnter], queued_count) : 0;
    if (error != 0) return Refuse(error);
    const io_uring_sq& queue = call->ring->sq;
    for (unsigned i = 0; i < queued_count; ++i) {
      submitted_entries.push_back(
          queue.sqes[(queue.sqe_tail - queued_count + i) & queue.ring_mask]);
    }
    return call->Proceed();
  }

  long Reap(SystemCall* call) {
    const long got = call->Proceed();
    for (long i = 0; i < got && on_completion; ++i) on_completion(*call->ring, call->entries[i]);
    return got;
  }

  std::mutex mutex_;
};

}  // namespace engine_race::test

#endif  // TEST_FAULTS_RING_HOOK_H_

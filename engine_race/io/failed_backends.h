// The back ends that have failed for good in this opening of a store, and their replacements.
//
// A failure is for good when the system refuses the back end's calls. A filter of system calls does
// so that was installed after the opening. A failure is also for good after kMaxFailedQueues queues
// in a row that completed no read. libaio then replaces io_uring, and psync, which stays, replaces
// libaio. The log is told once of each failure for good, and once of the first other failure of a
// back end.
//
// Thread-safe.
#ifndef ENGINE_RACE_IO_FAILED_BACKENDS_H_
#define ENGINE_RACE_IO_FAILED_BACKENDS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race::io {

class FailedBackends {
 public:
  explicit FailedBackends(LogFn log) : log_(std::move(log)) {}

  // `wanted`, or what replaces it: the back end of the next queue.
  IoBackend InPlaceOf(IoBackend wanted) const;

  // A queue of `backend` has failed. `has_read`: it had completed a read before. `why` is
  // kNotSupported when the system refuses its calls.
  void Note(IoBackend backend, bool has_read, const Status& why) noexcept;

 private:
  static constexpr uint32_t kMaxFailedQueues = 3;
  static constexpr size_t kBackendCount = static_cast<size_t>(IoBackend::kIoUring) + 1;

  struct History {
    uint32_t failed_queue_count = 0;  // in a row, none of which brought a read
    bool is_reported = false;
  };

  const LogFn log_;
  std::array<std::atomic<bool>, kBackendCount> has_failed_ = {};
  std::mutex mutex_;
  std::array<History, kBackendCount> histories_;  // under mutex_
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_FAILED_BACKENDS_H_

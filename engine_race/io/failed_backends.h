// The back end of the queues of one opening of a store: chosen before the first queue, and replaced
// when it fails for good.
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
#include <functional>
#include <mutex>
#include <utility>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/io/read_queue.h"

namespace engine_race::io {

class FailedBackends {
 public:
  // Finds out by reading what works. A store that needs no queue does not wait for that.
  using ChooseFn = std::function<Status(ReadBackend* chosen)>;
  // Without `choose` each queue begins with the back end that its options name.
  explicit FailedBackends(LogFn log, ChooseFn choose = {})
      : log_(std::move(log)), choose_(std::move(choose)) {}

  // Gives the options of the next queue the back end that was chosen, or what replaces it. Leaves
  // them to poll only where that works. The first call chooses, and fails as `choose` does; then
  // the next call tries again.
  Status SetIn(ReadQueueOptions* options);
  // `wanted` if none was chosen yet, or what replaces it: the back end of the next queue.
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
  const ChooseFn choose_;
  std::mutex choose_mutex_;
  ReadBackend chosen_;  // constant once is_chosen_
  std::atomic<bool> is_chosen_{false};
  std::array<std::atomic<bool>, kBackendCount> has_failed_ = {};
  std::mutex mutex_;
  std::array<History, kBackendCount> histories_;  // under mutex_
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_FAILED_BACKENDS_H_

// The failure that ends all writing to a store until it is opened again.
//
// A store that is open for reading alone is latched from the beginning, by kInvalidArgument.
// A failed write to a log leaves in doubt what the device holds, so nothing more is written then.
// A full disk and refused memory do not latch: the staged records stay, and the next write tries
// again.
//
// Thread safety: every call from any thread. Once latched, it stays latched.
#ifndef ENGINE_RACE_LOG_WRITE_LATCH_H_
#define ENGINE_RACE_LOG_WRITE_LATCH_H_

#include <atomic>
#include <mutex>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

class WriteLatch {
 public:
  // Keeps a reference to `log`, which is told of the first and of every later failure.
  explicit WriteLatch(const LogFn& log, bool read_only = false);
  WriteLatch(const WriteLatch&) = delete;
  WriteLatch& operator=(const WriteLatch&) = delete;

  bool latched() const noexcept {
    // Acquire pairs with the release in Latch: what failed is not tried again.
    return latched_.load(std::memory_order_acquire);
  }
  // The status of a write while latched: kIOError, naming the first failure if memory allowed it.
  // kInvalidArgument where the store is open for reading alone.
  Status status() const;

  void Latch(const Status& failure) noexcept;
  // Latches unless the failed write can be tried again.
  void LatchIfLasting(const Status& failure) noexcept;

 private:
  const LogFn& log_;
  const bool read_only_;
  std::atomic<bool> latched_;
  mutable std::mutex mutex_;
  Status status_;  // under mutex_; Ok while latched: there was no memory for the words
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_WRITE_LATCH_H_

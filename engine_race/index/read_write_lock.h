// A lock of one word: many readers or one writer, writers first.
//
// std::shared_mutex takes most of a cache line and two calls. It also lets a stream of readers keep
// a writer out for ever. If readers wait for that writer, one busy bucket stops all readers of the
// store. Here a waiting writer keeps new readers out. Waiters sleep in the kernel. Not recursive.
#ifndef ENGINE_RACE_INDEX_READ_WRITE_LOCK_H_
#define ENGINE_RACE_INDEX_READ_WRITE_LOCK_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/assert.h"

namespace engine_race {

// Works with std::shared_lock and std::lock_guard, hence the standard's names.
class ReadWriteLock {
 public:
  void lock_shared() noexcept {
    // Acquire: pairs with the release of unlock().
    while ((state_.fetch_add(1, std::memory_order_acquire) & kWriter) != 0) [[unlikely]] {
        unlock_shared();
        WaitWhileWriter();
      }
  }

  void unlock_shared() noexcept {
    // Release: pairs with the acquire of a writer that waits for the last reader.
    const uint32_t before = state_.fetch_sub(1, std::memory_order_release);
    ENGINE_RACE_ASSERT((before & ~kWriter) != 0);
    if (before == (kWriter | 1)) [[unlikely]] {
      state_.notify_all();
    }
  }

  void lock() noexcept {
    // Acquire: pairs with the release of the previous writer's unlock().
    while ((state_.fetch_or(kWriter, std::memory_order_acquire) & kWriter) != 0) WaitWhileWriter();
    // Acquire: pairs with the release of unlock_shared().
    uint32_t state = state_.load(std::memory_order_acquire);
    while (state != kWriter) {
      state_.wait(state, std::memory_order_relaxed);  // the load below does the ordering
      state = state_.load(std::memory_order_acquire);
    }
  }

  void unlock() noexcept {
    // Release: pairs with the acquires of lock_shared() and lock().
    const uint32_t before = state_.fetch_and(~kWriter, std::memory_order_release);
    ENGINE_RACE_ASSERT((before & kWriter) != 0);
    state_.notify_all();
  }

 private:
  static constexpr uint32_t kWriter = uint32_t{1} << 31;

  void WaitWhileWriter() noexcept {
    // Relaxed: the caller takes the lock afterwards, with acquire.
    uint32_t state = state_.load(std::memory_order_relaxed);
    while ((state & kWriter) != 0) {
      state_.wait(state, std::memory_order_relaxed);
      state = state_.load(std::memory_order_relaxed);
    }
  }

  // The writer's bit, and below it the number of readers, those about to retreat included.
  std::atomic<uint32_t> state_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_READ_WRITE_LOCK_H_

// What a pool knows of a frame beside its bytes. Nothing of it is ever on disk.
//
// The owner's fields are written while the frame is taken, before it can be reached. Children are
// counted by any thread. The pool's own fields are under the pool's mutex.
#ifndef ENGINE_RACE_L1_FRAME_INFO_H_
#define ENGINE_RACE_L1_FRAME_INFO_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

inline constexpr uint32_t kNoFrame = ~uint32_t{0};

struct alignas(64) FrameInfo {
  // The count of children is closed: the frame is being evicted.
  static constexpr uint32_t kClosed = ~uint32_t{0};

  // The swip that leads here; its memory outlives the frame's being hot.
  std::atomic<uint64_t>* parent = nullptr;
  // Where the bytes came from: what the swip gets back.
  uint32_t place = 0;
  // The frame that holds `parent`, and counts this one among its children; kNoFrame for none.
  uint32_t parent_frame = kNoFrame;
  // The owner's, to tell its frames apart.
  uint64_t tag = 0;
  // Hot frames that are reached through this one: while there are any, it is not evicted.
  std::atomic<uint32_t> child_count{0};
  // The swips of what is reached through this frame; null for a leaf.
  std::unique_ptr<std::atomic<uint64_t>[]> children;

  // False when the frame is being evicted.
  bool AddChild() {
    uint32_t count = child_count.load(std::memory_order_relaxed);
    do {
      if (count == kClosed) return false;
      // Acquire and release: pair with Close, Reopen and with each other.
    } while (!child_count.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel,
                                                std::memory_order_relaxed));
    return true;
  }
  // True when it was the last one.
  bool RemoveChild() {
    const uint32_t before = child_count.fetch_sub(1, std::memory_order_acq_rel);
    ENGINE_RACE_ASSERT(before != 0 && before != kClosed);
    return before == 1;
  }
  // True when there were no children; there will be none until Reopen.
  bool Close() {
    uint32_t none = 0;
    return child_count.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel,
                                               std::memory_order_relaxed);
  }
  void Reopen() {
    ENGINE_RACE_ASSERT(child_count.load(std::memory_order_relaxed) == kClosed);
    // Release: pairs with the acquire of AddChild.
    child_count.store(0, std::memory_order_release);
  }

 private:
  friend class FrameLine;
  friend class FrameEvictor;
  friend class FramePool;
  enum class State : uint8_t { kFree, kTaken, kHot, kCooling, kRetired, kOutside };
  State state = State::kOutside;
  // In the one line that the frame stands in: of free, cooling or retired ones.
  uint32_t previous = kNoFrame;
  uint32_t next = kNoFrame;
  uint64_t retired_epoch = 0;
};
static_assert(sizeof(FrameInfo) == 64);

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_INFO_H_

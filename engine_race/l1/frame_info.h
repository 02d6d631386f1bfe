// The description of a frame in its pool. It is never on disk.
//
// The owner writes its own fields while the frame is taken, before the frame can be reached. Any
// thread counts children. The pool writes the kind when the frame is taken. The pool's own fields
// change under the pool's mutex.
#ifndef ENGINE_RACE_L1_FRAME_INFO_H_
#define ENGINE_RACE_L1_FRAME_INFO_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

inline constexpr uint32_t kNoFrame = ~uint32_t{0};

// The kind of content of a frame. Each kind has an owner of its own.
enum class FrameKind : uint8_t { kBlock, kValue };
inline constexpr size_t kFrameKindCount = 2;

struct alignas(64) FrameInfo {
  // In place of a count of children: the frame is being evicted and gets no more children.
  static constexpr uint32_t kClosed = ~uint32_t{0};

  // The swip that leads to this frame. Its memory lives at least as long as this frame is hot.
  std::atomic<uint64_t>* parent = nullptr;
  // Where on disk the content came from: the swip leads there again after an eviction.
  uint32_t place = 0;
  // The frame that holds `parent` and counts this frame among its children; kNoFrame for none.
  uint32_t parent_frame = kNoFrame;
  // Tells the owner's frames apart. In a FrameCache it is the number under which the sketch counts
  // uses.
  uint64_t tag = 0;
  // The number of hot frames that are reached through this one. If it is not 0, the frame is not
  // evicted.
  std::atomic<uint32_t> child_count{0};
  FrameKind kind = FrameKind::kBlock;
  // The content took the frame only because it was free. Written while the frame is taken or under
  // the pool's mutex.
  bool is_stopgap = false;
  // The swips to the blocks that are reached through this frame; null for a leaf.
  std::unique_ptr<std::atomic<uint64_t>[]> children;

  // False if the frame is being evicted.
  bool AddChild() {
    uint32_t count = child_count.load(std::memory_order_relaxed);
    do {
      if (count == kClosed) return false;
      // Acquire and release: pair with Close, Reopen and with each other.
    } while (!child_count.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel,
                                                std::memory_order_relaxed));
    return true;
  }
  // True if it was the last child.
  bool RemoveChild() {
    const uint32_t before = child_count.fetch_sub(1, std::memory_order_acq_rel);
    ENGINE_RACE_ASSERT(before != 0 && before != kClosed);
    return before == 1;
  }
  // Refuses children until Reopen. False, and nothing is done, if there are children.
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
  friend class FrameList;
  friend class FrameEvictor;
  friend class FramePool;
  enum class State : uint8_t { kFree, kTaken, kHot, kCooling, kRetired, kOutside };
  State state = State::kOutside;
  // Neighbours in the one list that the frame is in: of free, cooling or retired frames.
  uint32_t previous = kNoFrame;
  uint32_t next = kNoFrame;
  uint64_t retired_epoch = 0;
};
static_assert(sizeof(FrameInfo) == 64);

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_INFO_H_

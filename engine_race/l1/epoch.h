// When memory that readers may still look at can be used again.
//
// A reader enters before it follows a pointer and leaves when it has done with what it found, in
// nanoseconds to microseconds: never while it waits for anything. Whoever takes a frame out of
// reach asks which epoch that was, and uses the frame again once every reader inside entered
// later. Entering is one atomic operation on a line of the reader's own; a count in the frame, the
// other way, is one on a line that all readers of the frame share.
//
// Thread-safe.
#ifndef ENGINE_RACE_L1_EPOCH_H_
#define ENGINE_RACE_L1_EPOCH_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace engine_race::l1 {

class EpochManager {
 public:
  EpochManager();
  EpochManager(const EpochManager&) = delete;
  EpochManager& operator=(const EpochManager&) = delete;

  class Guard {
   public:
    explicit Guard(EpochManager& manager) : slot_(manager.Enter()) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    // Release: pairs with the acquire in OldestInside; what was read inside was read before.
    ~Guard() { slot_->store(kOutside, std::memory_order_release); }

   private:
    std::atomic<uint64_t>* const slot_;
  };

  // The epoch in which something was taken out of reach, which has been done before the call.
  uint64_t Retire() { return now_.fetch_add(1, std::memory_order_seq_cst); }
  // Nobody inside can have seen what was retired in an epoch below this one.
  uint64_t SafeBelow() const;

 private:
  static constexpr uint64_t kOutside = 0;
  // More readers than these inside at once wait for each other.
  static constexpr uint32_t kSlots = 256;
  struct alignas(64) Slot {
    std::atomic<uint64_t> entered{kOutside};
  };

  std::atomic<uint64_t>* Enter() {
    for (uint32_t i = Hint();; ++i) {
      std::atomic<uint64_t>& slot = slots_[i % kSlots].entered;
      uint64_t expected = kOutside;
      // The epoch may be an old one by the time that it stands in the slot: that only holds frames
      // back for longer. Sequentially consistent, as is what takes a frame out of reach: either
      // the retiring thread sees the slot, or the reader sees that the frame is gone.
      if (slot.compare_exchange_strong(expected, now_.load(std::memory_order_relaxed),
                                       std::memory_order_seq_cst, std::memory_order_relaxed))
          [[likely]] {
        return &slot;
      }
    }
  }

  // A number of the calling thread's, so that threads begin at slots of their own.
  static uint32_t Hint();

  alignas(64) std::atomic<uint64_t> now_{1};
  const std::unique_ptr<Slot[]> slots_;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EPOCH_H_

// When memory that readers may still look at can be used again.
//
// A reader enters before it follows a pointer and leaves when it has done with what it found, in
// nanoseconds to microseconds: never while it waits for anything. Whoever takes a frame out of
// reach asks which epoch that was, and uses the frame again once every reader inside entered
// later. Entering is one atomic operation on a line of the reader's own; a count in the frame, the
// other way, is one on a line that all readers of the frame share.
//
// A reader's line has room beside its epoch for counts that no other line need be written to for.
//
// Thread-safe. A thread that is inside may enter once more: it is inside until it has left twice.
#ifndef ENGINE_RACE_L1_EPOCH_H_
#define ENGINE_RACE_L1_EPOCH_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace engine_race::l1 {

class EpochManager {
  static constexpr uint64_t kOutside = 0;
  // More readers than these inside at once wait for each other.
  static constexpr uint32_t kSlots = 256;
  struct alignas(64) Slot {
    std::atomic<uint64_t> entered{kOutside};
    // Of whoever is inside.
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> misses{0};
  };

 public:
  EpochManager();
  EpochManager(const EpochManager&) = delete;
  EpochManager& operator=(const EpochManager&) = delete;

  class Guard {
   public:
    explicit Guard(EpochManager& manager) : slot_(*manager.Enter()) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    // Release: pairs with the load in SafeBelow, what was read inside was read before; and with the
    // next to enter here, who goes on counting.
    ~Guard() { slot_.entered.store(kOutside, std::memory_order_release); }

    void CountHit() { CountOne(&slot_.hits); }
    void CountMiss() { CountOne(&slot_.misses); }

   private:
    // Relaxed: nobody else is in the slot, and who adds all up may be a little late.
    static void CountOne(std::atomic<uint64_t>* count) {
      count->store(count->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }

    Slot& slot_;
  };

  // The epoch in which something was taken out of reach, which has been done before the call.
  uint64_t Retire() { return now_.fetch_add(1, std::memory_order_seq_cst); }
  // Nobody inside can have seen what was retired in an epoch below this one.
  uint64_t SafeBelow() const;

  // What all guards have counted.
  struct Counts {
    uint64_t hits = 0;
    uint64_t misses = 0;
  };
  Counts TakeCounts() const;

  static constexpr uint64_t MemoryBytes() { return kSlots * sizeof(Slot); }

 private:
  Slot* Enter() {
    const uint32_t first = Hint();
    // The epoch may be an old one by the time that it stands in the slot: that only holds frames
    // back for longer. Acquire: pairs with Retire; who enters in a later epoch sees what was done
    // before it.
    if (TryEnter(&slots_[first % kSlots], now_.load(std::memory_order_acquire))) [[likely]] {
      return &slots_[first % kSlots];
    }
    return EnterElsewhere(first);
  }
  Slot* EnterElsewhere(uint32_t first);

  static bool TryEnter(Slot* slot, uint64_t epoch) {
    uint64_t expected = kOutside;
    // Sequentially consistent, as is what takes a frame out of reach: either the retiring thread
    // sees the slot, or the reader sees that the frame is gone. Relaxed where somebody is in it.
    return slot->entered.compare_exchange_strong(expected, epoch, std::memory_order_seq_cst,
                                                 std::memory_order_relaxed);
  }

  // A number of the calling thread's, so that threads begin at slots of their own.
  static uint32_t Hint();

  alignas(64) std::atomic<uint64_t> now_{1};
  const std::unique_ptr<Slot[]> slots_;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EPOCH_H_

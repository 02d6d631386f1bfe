// When memory that readers may still look at can be used again.
//
// A reader enters before it follows a pointer and leaves when it has done with what it found, in
// nanoseconds to microseconds: never while it waits for anything. Whoever takes a frame out of
// reach asks which epoch that was, and uses the frame again once every reader inside entered
// later. A count in the frame, the other way, is a locked operation on a line that all readers of
// the frame share.
//
// Entering is a plain store to a line of the thread's own, without the fence that should follow it:
// a fence, or any locked operation, would keep the cache misses of one lookup from overlapping
// those of the one before, which costs more than the lookup's instructions. Whoever wants to know
// who is inside has the kernel run a fence on every processor that runs a thread of the process
// (membarrier), once for many frames. Where the kernel refuses that, and in slots that threads
// share because there are more of them than slots, readers enter by a locked operation.
//
// A reader's line has room beside its epoch for counts that no other line need be written to for.
//
// Thread-safe. A thread that is inside may enter once more: it is inside until it has left twice.
#ifndef ENGINE_RACE_L1_EPOCH_H_
#define ENGINE_RACE_L1_EPOCH_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

class EpochManager {
  static constexpr uint64_t kOutside = 0;
  // More readers than these inside at once wait for each other. The first slots belong to one
  // thread each, as long as it lives.
  static constexpr uint32_t kSlots = 256;
  static constexpr uint32_t kOwnedSlots = 192;
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
    ~Guard() {
      ENGINE_RACE_ASSERT(slot_.entered.load(std::memory_order_relaxed) != kOutside);
      slot_.entered.store(kOutside, std::memory_order_release);
    }

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
    const uint32_t number = ThreadNumber();
    if (number < owned_slot_count_) [[likely]] {
      Slot* const slot = &slots_[number];
      // Relaxed: only this thread writes to the slot; it is inside already when it enters anew.
      if (slot->entered.load(std::memory_order_relaxed) == kOutside) [[likely]] {
        // The epoch may be an old one by the time that it stands in the slot: that only holds
        // frames back for longer. Acquire: pairs with Retire; who enters in a later epoch sees what
        // was done before it. Relaxed: the fence behind the store is SafeBelow's; either that finds
        // the slot, or the loads behind the fence find that the frame is gone.
        slot->entered.store(now_.load(std::memory_order_acquire), std::memory_order_relaxed);
        // For the compiler, which must leave the order as it is.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return slot;
      }
    }
    return EnterShared(number);
  }
  Slot* EnterShared(uint32_t number);

  static bool TryEnter(Slot* slot, uint64_t epoch) {
    uint64_t expected = kOutside;
    // Sequentially consistent, as is what takes a frame out of reach: either the retiring thread
    // sees the slot, or the reader sees that the frame is gone. Relaxed where somebody is in it.
    return slot->entered.compare_exchange_strong(expected, epoch, std::memory_order_seq_cst,
                                                 std::memory_order_relaxed);
  }

  // Of the calling thread: no other one that lives has it.
  static uint32_t ThreadNumber() {
    const uint32_t number = thread_number;
    return number != kNoNumber ? number : NumberThread();
  }
  static uint32_t NumberThread();
  static void ForgetThread();

  static constexpr uint32_t kNoNumber = ~uint32_t{0};
  // Of the thread alone, whatever the number of stores.
  static constinit thread_local uint32_t thread_number;

  alignas(64) std::atomic<uint64_t> now_{1};
  const std::unique_ptr<Slot[]> slots_;
  // kOwnedSlots where SafeBelow can have fences run elsewhere, else 0.
  const uint32_t owned_slot_count_;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EPOCH_H_

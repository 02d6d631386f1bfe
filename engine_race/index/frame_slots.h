// Finds the slots for those words of a bucket that lead to frames.
//
// The owner of the frames notes the slot of each frame's value in an array before a word leads to
// the frame. After an eviction the frame is used for another value, and its note changes. So each
// bucket counts its evictions. If the count did not change while a slot was looked up, the word led
// to the frame all the time. Then the slot is right.
//
// Thread safety: everything from any thread, but for set_slots.
#ifndef ENGINE_RACE_INDEX_FRAME_SLOTS_H_
#define ENGINE_RACE_INDEX_FRAME_SLOTS_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/value_ref.h"

namespace engine_race {

class FrameSlots {
 public:
  // To be called before a word leads to a frame.
  void set_slots(std::atomic<uint32_t>* slots) { slots_ = slots; }

  // The reference in `word`, with its slot even if the word leads to a frame. The caller must hold
  // the bucket's lock or be the only writer of the bucket.
  ValueRef SlotOf(const RefWord& word) const {
    const ValueRef ref = word.Load();
    return ref.hot() ? SlotOfHot(word) : ref;
  }
  // SlotOf for a word that may be hot. noted(frame) gives the slot that is noted for the frame now.
  template <typename NotedFn>
  ValueRef SettledSlotOf(const RefWord& word, const NotedFn& noted) const {
    while (true) {
      const uint64_t count = unswizzle_count();
      const ValueRef ref = word.Load();
      if (!ref.hot()) return ref;
      const uint32_t slot = noted(ref.frame());
      if (unswizzle_count() == count) return ref.InSlot(slot);
    }
  }

  // Counts that a word leads to its slot again. With the bucket's lock held shared, and before the
  // frame can be used again.
  void CountUnswizzle() noexcept {
    // Release: after the exchange of the word, and before the frame's next slot is noted. Pairs
    // with the acquires in unswizzle_count.
    unswizzle_count_.fetch_add(1, std::memory_order_release);
  }
  // While it stays the same, a word stopped leading to its frame only if it was overwritten.
  uint64_t unswizzle_count() const {
    // Acquire: pairs with the release in CountUnswizzle. A thread that sees the new count sees the
    // changed word.
    return unswizzle_count_.load(std::memory_order_acquire);
  }

  // Notes another slot for a frame whose value was moved. With the bucket's lock held, while no
  // word leads to the frame, and after CountUnswizzle.
  void NoteSlot(uint32_t frame, uint32_t slot) noexcept {
    // Release: pairs with the acquire in NotedSlot.
    slots_[frame].store(slot, std::memory_order_release);
  }
  // The slot of a frame that cannot be evicted during the call.
  uint32_t NotedSlot(uint32_t frame) const {
    // A word leads to a frame only after the owner of the frames has called set_slots.
    ENGINE_RACE_ASSERT(slots_ != nullptr);
    // Acquire: pairs with the release by which the owner notes the slot of the frame's next value.
    // So a reader of that slot also sees the eviction counted.
    return slots_[frame].load(std::memory_order_acquire);
  }

 private:
  __attribute__((noinline)) ValueRef SlotOfHot(const RefWord& word) const {
    return SettledSlotOf(word, [this](uint32_t frame) { return NotedSlot(frame); });
  }

  std::atomic<uint32_t>* slots_ = nullptr;
  std::atomic<uint64_t> unswizzle_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_FRAME_SLOTS_H_

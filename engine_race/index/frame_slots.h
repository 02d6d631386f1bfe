// Which slots the words of a bucket stand for that lead to frames.
//
// The slot of each frame's value is noted in an array of the frames' owner, before any word leads
// there. A frame that has been evicted is used again for another value, and then says another slot.
// So each bucket counts its evictions: a slot that was looked up while that count stood still is
// the right one, since the word led to the frame all the time.
//
// Thread safety: everything from any thread, but for set_slots.
#ifndef ENGINE_RACE_INDEX_FRAME_SLOTS_H_
#define ENGINE_RACE_INDEX_FRAME_SLOTS_H_

#include <atomic>
#include <cstdint>

#include "engine_race/index/index.h"
#include "engine_race/index/ref_word.h"

#include "engine_race/base/assert.h"

namespace engine_race {

class FrameSlots {
 public:
  // Before the first word leads to a frame.
  void set_slots(const std::atomic<uint32_t>* slots) { slots_ = slots; }

  // What the word says, with a slot whatever it leads to. The word's bucket must be locked, or be
  // written to by nobody but the caller.
  ValueRef SlotOf(const RefWord& word) const {
    const ValueRef ref = word.Load();
    return ref.hot() ? SlotOfHot(word) : ref;
  }
  // The same, where noted(frame) tells the slot that is noted now.
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

  // A word that led to a frame has been given its slot back. With the bucket's lock held shared,
  // and before anybody may use the frame again.
  void CountUnswizzle() noexcept {
    // Release: behind the exchange of the word, before the frame's next slot is noted; pairs with
    // the acquires of unswizzle_count.
    unswizzle_count_.fetch_add(1, std::memory_order_release);
  }
  // While it stays the same, no word has stopped leading to its frame but by being written over.
  uint64_t unswizzle_count() const {
    // Acquire: pairs with the release above. Whoever sees the new count sees the word changed.
    return unswizzle_count_.load(std::memory_order_acquire);
  }

  // The slot of a frame that cannot be evicted meanwhile.
  uint32_t NotedSlot(uint32_t frame) const {
    // A word leads to a frame only where frames have an owner, who has said where slots are noted.
    ENGINE_RACE_ASSERT(slots_ != nullptr);
    // Acquire: pairs with the release of whoever notes the slot of the frame's next value, so that
    // the count of the eviction before it is seen, too.
    return slots_[frame].load(std::memory_order_acquire);
  }

 private:
  __attribute__((noinline)) ValueRef SlotOfHot(const RefWord& word) const {
    return SettledSlotOf(word, [this](uint32_t frame) { return NotedSlot(frame); });
  }

  const std::atomic<uint32_t>* slots_ = nullptr;
  std::atomic<uint64_t> unswizzle_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_FRAME_SLOTS_H_

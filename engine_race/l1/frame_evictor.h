// Which frames are evicted when a pool is full, and when they can be used again: CLOCK with a
// queue.
//
// A hand goes round the frames and keeps a part of them cooling: marked in their swips, in a queue.
// A read that meets the mark takes it off. A frame that reaches the front of the queue with its
// mark is the victim: taken out of reach and retired. It is used again when every reader inside the
// epoch has entered later.
//
// Under the pool's mutex, but for eviction_count.
#ifndef ENGINE_RACE_L1_FRAME_EVICTOR_H_
#define ENGINE_RACE_L1_FRAME_EVICTOR_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/function_ref.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_line.h"
#include "engine_race/l1/frame_owner.h"
#include "engine_race/l1/frame_table.h"

namespace engine_race::l1 {

class FrameEvictor {
 public:
  // Frames that the hand passes, or victims that are looked at, in one call.
  static constexpr uint32_t kMaxSteps = 64;

  // All outlive it.
  FrameEvictor(const FrameTable* frames, EpochManager* epochs, FrameOwner* owner)
      : frames_(*frames), epochs_(*epochs), owner_(*owner) {}

  // A taken frame can be reached from now on.
  void Admit(uint32_t frame);

  // Moves the hand until enough frames are cooling.
  void CoolSome();
  // So many are enough.
  uint32_t wanted_cooling_count() const {
    return static_cast<uint32_t>(frames_.touched_count() * uint64_t{kCoolingPercent} / 100) + 1;
  }
  // The frame that would be evicted next; kNoFrame when there is none. Frames that were heated
  // leave the queue.
  uint32_t FindVictim();
  // The victim is hot again. The hand marks another frame in its place.
  void Spare(uint32_t victim);
  bool EvictVictim();
  // False when the frame cannot be evicted now: others are reached through it or, `only_cooling`, a
  // reader has taken its mark off.
  bool Evict(uint32_t frame, bool only_cooling);

  // Calls free(frame) for each retired frame that no reader can be inside any more.
  void Reclaim(FunctionRef<void(uint32_t)> free);
  // Evicted frames that wait for their readers.
  uint32_t retired_count() const { return retired_.count(); }
  // Frames that can be reached.
  uint32_t used_count() const { return used_count_; }
  // From any thread.
  uint64_t eviction_count() const {
    return evictions_.load(std::memory_order_relaxed);  // a statistic
  }

 private:
  using State = FrameInfo::State;
  // Of the frames that hold memory.
  static constexpr uint32_t kCoolingPercent = 10;

  FrameOwner::Cooled Cool(uint32_t frame);
  void PassHand(uint32_t frame);

  const FrameTable& frames_;
  EpochManager& epochs_;
  FrameOwner& owner_;
  FrameLine cooling_{&frames_, State::kCooling};
  FrameLine retired_{&frames_, State::kRetired};
  uint32_t used_count_ = 0;
  uint32_t hand_ = 0;
  std::atomic<uint64_t> evictions_{0};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_EVICTOR_H_

// Chooses the frames to evict by CLOCK with a FIFO queue, and finds out when they can be used
// again.
//
// A hand goes round the frames and cools a part of them. It sets the cooling bits in their swips
// and puts them into the queue. A read clears the bit. A frame that reaches the head of the queue
// with the bit set is the victim. A stopgap is put into the queue when it is admitted. An evicted
// frame is unreachable and retired. It is free again once every reader inside the epoch has entered
// later.
//
// Under the pool's mutex, except eviction_count.
#ifndef ENGINE_RACE_L1_FRAME_EVICTOR_H_
#define ENGINE_RACE_L1_FRAME_EVICTOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine_race/base/function_ref.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_list.h"
#include "engine_race/l1/frame_memory.h"
#include "engine_race/l1/frame_owner.h"

namespace engine_race::l1 {

class FrameEvictor {
 public:
  // How many frames the hand passes, or how many victims are considered, in one call.
  static constexpr uint32_t kMaxSteps = 64;

  // All arguments outlive it.
  FrameEvictor(const FrameMemory* frames, EpochManager* epochs, const FrameOwners* owners)
      : frames_(*frames), epochs_(*epochs), owners_(*owners) {}

  // A taken frame becomes hot. A stopgap becomes a cooling frame.
  void Admit(uint32_t frame);

  // Moves the hand until enough frames are cooling, or it has passed kMaxSteps frames.
  void CoolSome();
  // How many frames should be cooling.
  uint32_t wanted_cooling_count() const {
    return static_cast<uint32_t>(frames_.touched_count() * uint64_t{kCoolingPercent} / 100) + 1;
  }
  // The frame that will be evicted next; kNoFrame when there is none. Heated frames leave the
  // queue.
  uint32_t FindVictim();
  // Takes a victim out of the queue without evicting it. The hand cools another frame instead.
  void Spare(uint32_t victim);
  bool EvictVictim();
  // False when the frame cannot be evicted now. Then other frames are reached through it, or
  // `only_cooling` is set and a reader has cleared its cooling bit.
  bool Evict(uint32_t frame, bool only_cooling);

  // Calls free(frame) for each retired frame that no reader can be inside any more.
  void Reclaim(FunctionRef<void(uint32_t)> free);
  // Evicted frames that may still have readers.
  uint32_t retired_count() const { return retired_.count(); }
  // Frames of a kind that can be reached.
  uint32_t used_count(FrameKind kind) const { return used_counts_[static_cast<size_t>(kind)]; }
  // From any thread.
  uint64_t eviction_count(FrameKind kind) const {
    return evictions_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);  // a statistic
  }

 private:
  using State = FrameInfo::State;
  // How many of the frames that hold memory should be cooling.
  static constexpr uint32_t kCoolingPercent = 10;

  FrameOwner::Cooled Cool(uint32_t frame);
  void PassHand(uint32_t frame);

  const FrameMemory& frames_;
  EpochManager& epochs_;
  const FrameOwners& owners_;
  FrameList cooling_{&frames_, State::kCooling};
  FrameList retired_{&frames_, State::kRetired};
  std::array<uint32_t, kFrameKindCount> used_counts_{};
  uint32_t hand_ = 0;
  std::array<std::atomic<uint64_t>, kFrameKindCount> evictions_{};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_EVICTOR_H_

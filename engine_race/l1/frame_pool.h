// Frames: memory of one size each, that hot things are kept in, and eviction. The room's front
// page.
//
// A frame is found through one swip. Which frames are evicted, FrameEvictor says; where a frame's
// swip is, its owner knows: BlockOwner by a pointer that the frame keeps, the engine's values by
// their key, for what the index holds moves about.
//
// Frames of one pool are of one size: 16 KiB for blocks, 4 KiB for values.
//
// Thread safety: everything from any thread. Owns the memory of its frames; users outlive it.
#ifndef ENGINE_RACE_L1_FRAME_POOL_H_
#define ENGINE_RACE_L1_FRAME_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_evictor.h"
#include "engine_race/l1/frame_line.h"
#include "engine_race/l1/frame_owner.h"
#include "engine_race/l1/frame_table.h"

namespace engine_race::l1 {

class FramePool {
 public:
  static constexpr uint32_t kNoFrame = l1::kNoFrame;

  // Room for `frame_count` frames of `frame_bytes`, taken from the system as they are used.
  // kOutOfMemory.
  static Status Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                       FrameOwner* owner, std::unique_ptr<FramePool>* pool,
                       const Placement& placement = {});

  char* data(uint32_t frame) const { return frames_.data(frame); }
  FrameInfo& info(uint32_t frame) const { return frames_.info(frame); }

  // A frame that nobody else knows; kNoFrame when all are in use and none can be evicted now. Not
  // from inside the epoch, nor is any call below but Install.
  uint32_t Take();
  // As Take, for a caller that takes a frame only from something that is worth less. While no more
  // than `reserve` frames can be had without eviction, the victim is evicted for it if
  // `goes(victim)` says so, called under the mutex. If not, the victim is spared until the hand
  // comes round again, and the answer is kNoFrame; likewise while readers have to leave first.
  uint32_t TakeInExchange(uint32_t reserve, FunctionRef<bool(uint32_t)> goes) noexcept;
  // Shows look(victim) the frame that would be evicted next, under the mutex; false when there is
  // none.
  bool LookAtVictim(FunctionRef<void(uint32_t)> look) noexcept;
  // Gives back a frame that was taken and never installed.
  void GiveBack(uint32_t frame) noexcept;

  // Makes a frame, filled and described, reachable by `swizzle`, which answers whether it did.
  // Under the mutex, so that eviction finds the state that goes with the swip. False, too, when the
  // limit has come down meanwhile: the frame is to be given back.
  bool Install(uint32_t frame, FunctionRef<bool()> swizzle);
  // Takes an installed frame out of reach, unless something is reached through it: false then, and
  // for a frame that is not installed.
  bool Remove(uint32_t frame) noexcept;

  // Lets only the first `limit` frames be used, evicts the others, waits for their readers and
  // gives their memory back. What cannot be evicted now, or is held for long, stays until the next
  // call.
  void SetLimit(uint32_t limit) noexcept;
  // Evicts, a few at a time, until `wanted` frames can be had without: true while there are more
  // to evict. Nothing that was heated is evicted.
  bool EvictAhead(uint32_t wanted) noexcept;

  size_t frame_bytes() const { return frames_.frame_bytes(); }
  uint32_t frame_count() const { return frames_.frame_count(); }
  uint32_t limit() const;
  // Frames that can be had without eviction, as of a moment ago.
  uint32_t spare_count() const {
    return spare_count_.load(std::memory_order_relaxed);  // a hint
  }
  // Installed ones.
  uint32_t used_count() const;
  // Those that hold memory.
  uint32_t touched_count() const;
  size_t memory_bytes() const;
  uint64_t eviction_count() const { return evictor_.eviction_count(); }

 private:
  using State = FrameInfo::State;
  // So often Take waits for readers to leave the epoch before it gives up.
  static constexpr uint32_t kPatience = 1000;
  static constexpr uint32_t kStuckTries = 64;
  // What one hold of the mutex does at most: frames that a limit passes, evictions.
  static constexpr uint32_t kMaxSteps = 64;
  static constexpr uint32_t kMaxBatch = 8;

  FramePool(EpochManager* epochs, FrameOwner* owner)
      : owner_(*owner), evictor_(&frames_, epochs, owner) {}

  // All under mutex_, up to the fields.
  uint32_t TakeFree();
  void Free(uint32_t frame);
  void Reclaim();
  uint32_t BatchSize() const { return limit_ / 64 < kMaxBatch ? limit_ / 64 + 1 : kMaxBatch; }
  void CountSpare();

  // With resize_mutex_ held.
  void Grow(uint32_t old_limit);
  void Empty(uint32_t frame);
  void DropTail(uint32_t limit);

  FrameOwner& owner_;
  // What readers need, and behind it, in lines of its own, what is written as frames come and go.
  alignas(64) FrameTable frames_;
  alignas(64) FrameEvictor evictor_;
  std::atomic<uint32_t> spare_count_{0};
  std::mutex resize_mutex_;  // before mutex_

  mutable std::mutex mutex_;
  FrameLine free_{&frames_, State::kFree};
  uint32_t limit_ = 0;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_POOL_H_

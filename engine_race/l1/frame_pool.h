// A pool of equal-sized frames and its eviction.
//
// A frame is found through one swip. FrameEvictor chooses the frames to evict. Each kind of frame
// has an owner that finds a frame's swip. BlockOwner keeps a pointer to it in the frame. The owner
// of values finds it by key, because the words of the index move.
//
// All frames of a pool have one size.
//
// Thread safety: every call from any thread. Owns the memory of its frames and must outlive its
// users.
#ifndef ENGINE_RACE_L1_FRAME_POOL_H_
#define ENGINE_RACE_L1_FRAME_POOL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_evictor.h"
#include "engine_race/l1/frame_list.h"
#include "engine_race/l1/frame_memory.h"
#include "engine_race/l1/frame_owner.h"

namespace engine_race::l1 {

class FramePool {
 public:
  static constexpr uint32_t kNoFrame = l1::kNoFrame;

  // Reserves `frame_count` frames of `frame_bytes`. They take memory from the system only when they
  // are first used. kOutOfMemory.
  static Status Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                       std::unique_ptr<FramePool>* pool, const Placement& placement = {});

  // `owner` gets the calls for frames of `kind`. At most `max_count` frames are of that kind. To be
  // called before the first frame of that kind is taken.
  void SetOwner(FrameKind kind, FrameOwner* owner, uint32_t max_count = ~uint32_t{0});
  // Whether frames of `kind` have an owner. No owner may be set meanwhile.
  bool HasOwner(FrameKind kind) const { return owners_.Has(kind); }
  // Evicts all frames of `kind` and makes no more calls to its owner. Meanwhile no thread may use
  // frames of that kind or be inside the epoch, and no other frames may be reached through them.
  void RemoveOwner(FrameKind kind) noexcept;

  char* data(uint32_t frame) const { return frames_.data(frame); }
  FrameInfo& info(uint32_t frame) const { return frames_.info(frame); }

  // Takes a frame that no other thread knows. kNoFrame when all are in use and none can be evicted
  // now. This call and those below, except Install, must not be made from inside the epoch.
  uint32_t Take(FrameKind kind = FrameKind::kBlock);
  // Takes a free frame while more than `reserve` frames can be had without eviction. Otherwise
  // evicts the victim if agrees(victim), which is called under the mutex. If it does not agree, the
  // victim is spared until the hand comes round again, and the answer is kNoFrame. Also kNoFrame
  // while readers of evicted frames must leave first, or while another thread holds the mutex. If
  // no more frames may be of `kind`, only a victim of that kind is evicted.
  uint32_t TakeInExchange(FrameKind kind, uint32_t reserve,
                          FunctionRef<bool(uint32_t)> agrees) noexcept;
  // Calls look(victim) under the mutex, with the frame that will be evicted next. False when there
  // is none, or while another thread holds the mutex.
  bool LookAtVictim(FunctionRef<void(uint32_t)> look) noexcept;
  // Whether the owner says so. Only for a victim, while agrees or look is called with it.
  bool IsOrphan(uint32_t frame) const {
    FrameInfo& own = info(frame);
    return owners_.Of(own).IsOrphan(frame, &own);
  }
  // Gives back a frame that was taken and never installed. Does not wait for the mutex: the frame
  // may be free a moment later.
  void GiveBack(uint32_t frame) noexcept;

  // Makes a frame that is filled and described reachable by swizzle(), which says whether it
  // succeeded. It is called under the mutex, so that the frame's state and its swip change
  // together. Also false if the limit is now below the frame or below the frame through which it is
  // reached. After false the caller must give the frame back.
  bool Install(uint32_t frame, FunctionRef<bool()> swizzle);
  // Install, but false while another thread holds the mutex.
  bool TryInstall(uint32_t frame, FunctionRef<bool()> swizzle);
  // Evicts an installed frame. False if another frame is reached through it, or if it is not
  // installed.
  bool Remove(uint32_t frame) noexcept;

  // Evicts the frame that a swip leads to, and the frames that its first `child_count` swips lead
  // to. No thread may install frames below the swip any more.
  void RemoveTree(const std::atomic<uint64_t>& swip, uint32_t child_count) noexcept;

  // Lets only the first `limit` frames be used. Evicts the others and those that are reached
  // through them, waits for their readers and gives their memory back. Frames that cannot be
  // evicted now, or that readers hold for long, keep their memory until the next call.
  void SetLimit(uint32_t limit) noexcept;
  // SetLimit for a limit above the one before. The frames below it get their memory first, so that
  // few threads wait for the system at once. False, and nothing else is done, while another thread
  // holds the mutex or sets a limit.
  bool RaiseLimit(uint32_t limit) noexcept;
  // Evicts a few cooling frames, so that `wanted` frames can be had without eviction. True while
  // more must be evicted for that. Does nothing while another thread holds the mutex.
  bool EvictAhead(uint32_t wanted) noexcept;

  size_t frame_bytes() const { return frames_.frame_bytes(); }
  uint32_t frame_count() const { return frames_.frame_count(); }
  uint32_t limit() const;
  // How many frames can be had without eviction. May be a moment old.
  uint32_t spare_count() const {
    return spare_count_.load(std::memory_order_relaxed);  // a hint
  }
  // The number of installed frames.
  uint32_t used_count() const;
  uint32_t used_count(FrameKind kind) const;
  // How many more frames may be of `kind`. The last few are left while there are others to evict,
  // see MayHaveMore. May be a moment old.
  uint32_t left_count(FrameKind kind) const {
    const auto i = static_cast<size_t>(kind);
    return max_counts_[i] - held_counts_[i].load(std::memory_order_relaxed);  // a hint
  }
  uint32_t max_count(FrameKind kind) const { return max_counts_[static_cast<size_t>(kind)]; }
  // Whether there may be more frames of `kind`, but for the few for which others are evicted
  // together.
  bool MayHaveMore(FrameKind kind) const { return left_count(kind) > LeastLeft(kind); }
  // The number of frames that hold memory.
  uint32_t touched_count() const;
  size_t memory_bytes() const;
  uint64_t eviction_count(FrameKind kind) const { return evictor_.eviction_count(kind); }
  uint64_t eviction_count() const {
    return eviction_count(FrameKind::kBlock) + eviction_count(FrameKind::kValue);
  }

 private:
  using State = FrameInfo::State;
  // How often Take waits for readers to leave the epoch before it gives up.
  static constexpr uint32_t kPatience = 1000;
  static constexpr uint32_t kStuckTries = 64;
  // How often a read tries the mutex: for about as long as a holder that runs keeps it.
  static constexpr uint32_t kLockTries = 32;
  // Limits of the work under one hold of the mutex: frames that a limit passes, and evictions.
  static constexpr uint32_t kMaxSteps = 64;
  static constexpr uint32_t kMaxBatch = 32;
  static constexpr uint32_t kBatchFraction = 64;  // of the frames
  // The most other frames that lead to a frame.
  static constexpr uint32_t kMaxDepth = 3;

  explicit FramePool(EpochManager* epochs) : evictor_(&frames_, epochs, &owners_) {
    max_counts_.fill(~uint32_t{0});
  }

  // Holds mutex_ unless another thread keeps it for longer. Reads use it, because a holder may be
  // preempted, and no frame is worth that wait.
  std::unique_lock<std::mutex> LockSoon() const noexcept;
  // These are called under mutex_.
  uint32_t TakeFree(FrameKind kind);
  bool InstallTaken(uint32_t frame, FunctionRef<bool()> swizzle);
  void Free(uint32_t frame);
  void FreeReturned();
  void Reclaim();
  uint32_t LeastLeft(FrameKind kind) const {
    return std::min(max_count(kind) / kBatchFraction, kMaxBatch);
  }
  uint32_t BatchSize() const { return std::min(limit_ / kBatchFraction + 1, kMaxBatch); }
  void CountSpare();
  void CountHeld(FrameKind kind, int32_t more);
  bool IsBeyondLimit(uint32_t frame) const;
  bool Empty(uint32_t frame);
  void Grow(uint32_t old_limit);

  // Calls done(frame) for the frames [begin, end), under mutex_. False if one answer was false.
  bool ForEach(uint32_t begin, uint32_t end, FunctionRef<bool(uint32_t)> done);
  // Called with resize_mutex_ held.
  void DropTail(uint32_t limit);

  FrameOwners owners_;
  // How many frames may be of each kind. Written before frames of the kind are taken.
  std::array<uint32_t, kFrameKindCount> max_counts_;
  // Readers need only frames_. The members that change with each frame lie in other cache lines.
  alignas(64) FrameMemory frames_;
  alignas(64) FrameEvictor evictor_;
  std::atomic<uint32_t> spare_count_{0};
  // Frames of each kind that are taken, installed or retired. Written under mutex_.
  std::array<std::atomic<uint32_t>, kFrameKindCount> held_counts_{};
  // The last of the frames that were given back while another thread held the mutex. Each leads to
  // the one before. The next holder frees them.
  std::atomic<uint32_t> returned_{kNoFrame};
  std::mutex resize_mutex_;  // before mutex_
  // The frames that may have got memory before they were used, under resize_mutex_.
  uint32_t populated_end_ = 0;

  mutable std::mutex mutex_;
  FrameList free_{&frames_, State::kFree};
  uint32_t limit_ = 0;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_POOL_H_

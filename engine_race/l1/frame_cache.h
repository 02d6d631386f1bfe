// One pool of frames for blocks of the index and for hot values, under one replacement policy. The
// room's front page.
//
// Where values have the size of a block, one cache keeps both. Otherwise blocks have a cache, and
// values have another one, whose frames have their size. Both enter the epochs of the first.
//
// CLOCK proposes a victim, whatever its kind. A sketch counts how often each block and each value
// was used lately. Content gets a frame if one is free, or if it is used more often than the victim
// by a margin. So reads of keys that are not read again evict nothing. In a cache of both, a miss
// on a block costs one read of 4 KiB, as a miss on a value does. So both are weighed by frequency
// alone. A frame through which other hot frames are reached is in use and is no victim.
//
// A value that was read once takes a free frame as a stopgap: memory that lies idle is used. It
// makes no other user give memory up. It cools at once. At the head of the queue, if it was not
// read again, it yields to any block, and to any value that was read before.
//
// An admission does not wait for the pool's mutex. If another thread holds it, the content gets no
// frame.
//
// The cache books its memory from a share of the budget, a few frames at a time as they are used.
//
// Thread-safe. Owners are set before frames of their kind are used, and removed before they are
// destroyed. When the cache is destroyed, no owner is left and no call may be running.
#ifndef ENGINE_RACE_L1_FRAME_CACHE_H_
#define ENGINE_RACE_L1_FRAME_CACHE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/memory_share.h"
#include "engine_race/base/status.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_pool.h"
#include "engine_race/l1/frequency_sketch.h"

namespace engine_race::l1 {

class FrameCache final : public MemoryUser {
 public:
  // Of frames that hold blocks of the index.
  static constexpr size_t kBlockBytes = 4096;

  // Makes frames of `frame_bytes`, a multiple of 64, for at most `max_bytes`. Descriptions are
  // included, and take at most a quarter of that. Frames are booked from `share`, a few at a time
  // as they are used. Without a share all may be used at once. `epochs`, of another cache, are used
  // in place of own ones unless they are null. *cache is null when there is no room for a single
  // frame. kOutOfMemory.
  static Status Create(uint64_t max_bytes, MemoryShare* share, std::unique_ptr<FrameCache>* cache,
                       const Placement& placement = {}, size_t frame_bytes = kBlockBytes,
                       EpochManager* epochs = nullptr);
  ~FrameCache();

  // The memory of `frame_count` frames and all their descriptions.
  static uint64_t BytesFor(uint32_t frame_count, size_t frame_bytes = kBlockBytes);
  // The memory of this cache with `frame_count` of its frames in use: all its descriptions are
  // there.
  uint64_t BytesInUse(uint32_t frame_count) const {
    return FixedBytes(this->frame_count()) + uint64_t{frame_count} * frame_bytes_;
  }
  // The memory of one frame, its description, the owner's word, and its line of the sketch.
  uint64_t bytes_with_description() const { return frame_bytes_ + kBytesBesideFrame; }

  EpochManager& epochs() { return epochs_; }
  size_t frame_bytes() const { return frame_bytes_; }
  FramePool& pool() { return *pool_; }
  uint32_t frame_count() const { return pool_->frame_count(); }
  char* data(uint32_t frame) const { return pool_->data(frame); }
  FrameInfo& info(uint32_t frame) const { return pool_->info(frame); }
  // A number for each frame, for use by the owner of values: the slot of the frame's value.
  std::atomic<uint32_t>* owner_words() const {
    return reinterpret_cast<std::atomic<uint32_t>*>(word_memory_.data());
  }

  // `owner` gets the calls for frames of `kind`. At most `max_count` frames hold content of that
  // kind. To be called before a frame of that kind is taken.
  void SetOwner(FrameKind kind, FrameOwner* owner, uint32_t max_count = ~uint32_t{0}) {
    pool_->SetOwner(kind, owner, max_count);
  }
  // Evicts all frames of `kind` and makes no more calls to its owner. Nobody may use frames of that
  // kind meanwhile or be inside the epoch.
  void RemoveOwner(FrameKind kind) noexcept { pool_->RemoveOwner(kind); }

  // Notes one use of the content with the number `id` and returns its frequency, this use included.
  // The numbers of blocks and of values may collide: then both look a little more frequent.
  uint32_t Note(uint64_t id) noexcept { return sketch_.Note(id); }
  // Fetches the memory that Note reads.
  void Prefetch(uint64_t id) const { sketch_.Prefetch(id); }
  // Whether so few frames are left for `kind` that hits must be noted too.
  bool AreScarce(FrameKind kind) const {
    // Relaxed: a hint.
    return int64_t{pool_->spare_count()} <= scarce_count_.load(std::memory_order_relaxed) ||
           pool_->left_count(kind) <= pool_->max_count(kind) / kScarceFraction;
  }

  // Whether content of `kind` whose use does not count may get a frame. One is free, or the cache
  // may grow and has given up no memory since its last use. A hint.
  bool HasFree(FrameKind kind) const {
    return (!is_full() || MayGrowUncounted()) && pool_->MayHaveMore(kind);
  }
  // Takes a frame for content of `kind` that Note(id) has just given that frequency, or 0 for
  // content whose use does not count. That is a free frame, or the victim's frame if the victim is
  // a stopgap or its frequency is lower by the margin. kNoFrame if neither is to be had. The
  // frame's description is empty but for its kind and its tag, which is `id`. The caller fills the
  // frame and then calls Install or GiveBack. Not from inside the epoch.
  uint32_t TakeFor(FrameKind kind, uint64_t id, uint32_t frequency) noexcept;
  // Makes the frame reachable by swizzle(): see FramePool::Install. After false the caller must
  // give the frame back. `counts_as_use`: whether UseCount counts it.
  bool Install(uint32_t frame, FunctionRef<bool()> swizzle, bool counts_as_use = true);
  void GiveBack(uint32_t frame) noexcept { pool_->GiveBack(frame); }

  // Evicts frames down to `limit_bytes` and gives their memory back. Not for a cache with a share.
  void SetLimit(uint64_t limit_bytes) noexcept;

  // The number of hits and of admissions that are uses.
  uint64_t UseCount() const noexcept override;
  // Evicts frames, a step at a time. A frame that a reader holds for long is given back by a later
  // call.
  void ShrinkTo(uint64_t bytes) noexcept override;

  // Whether frames should be evicted ahead of need, so that an admission does not wait for readers.
  bool RunsLow() const { return !may_grow() && is_full() && pool_->spare_count() < reserve() / 2; }
  // Evicts a few frames ahead of need. True while there is more to do. For a task or a thread of
  // its own.
  bool EvictSome() noexcept { return pool_->EvictAhead(reserve()); }

  // The memory that is in use now, of frames and of all descriptions.
  uint64_t memory_bytes() const;
  // The memory that may be in use now.
  uint64_t limit_bytes() const;
  uint64_t admission_count(FrameKind kind) const {
    return admissions_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);  // a statistic
  }

 private:
  // A value of lower frequency takes a free frame only, as a stopgap.
  static constexpr uint32_t kLeastFrequency = 2;
  // Of the offers that are refused because of bar_, one in this many is compared with the current
  // victim.
  static constexpr uint32_t kRefusals = 64;
  // Content is admitted if its frequency is above the victim's by more than this. So content of
  // about the same frequency does not evict each other all the time.
  static constexpr uint32_t kMargin = 2;
  // Hits are noted when no more than this part of the frames is left.
  static constexpr uint32_t kScarceFraction = 8;
  // The frames that are booked together, or given back together, have about so many bytes.
  static constexpr size_t kStepBytes = size_t{256} << 10;
  // More frames are booked while fewer than this part of them is spare, or than so many steps have.
  // While one thread waits for the memory of more frames, the others take these.
  static constexpr uint32_t kAheadFraction = 4;
  static constexpr uint32_t kMaxAheadSteps = 4;
  static constexpr uint64_t kBytesBesideFrame = sizeof(FrameInfo) + sizeof(uint32_t) + 64;

  FrameCache(MemoryShare* share, size_t frame_bytes, EpochManager* epochs);

  // The memory of all descriptions of frames, whatever the limit.
  static uint64_t FixedBytes(uint32_t max_count);
  uint32_t CountFor(uint64_t limit_bytes) const;
  // How many frames are kept free when all others are in use.
  uint32_t reserve() const {
    return reserve_.load(std::memory_order_relaxed);  // a hint
  }
  bool is_full() const { return pool_->spare_count() <= reserve(); }
  // Whether it is time to book more frames.
  bool RunsShort() const {
    // Relaxed: a hint.
    return is_full() || pool_->spare_count() < ahead_.load(std::memory_order_relaxed);
  }
  bool may_grow() const {
    return may_grow_.load(std::memory_order_relaxed);  // a hint
  }
  // Relaxed: a hint.
  bool MayGrowUncounted() const {
    return may_grow() && !has_shrunk_.load(std::memory_order_relaxed);
  }
  // Books some more frames. False when none can be had now.
  bool Grow() noexcept;
  // Both are called with limit_mutex_ held.
  void ApplyBooked() noexcept;
  void UpdateHints() noexcept;
  uint32_t BarOf(uint32_t victim) const noexcept;
  bool HasRoomFor(FrameKind kind) const { return !is_full() && pool_->MayHaveMore(kind); }
  bool IsWorthATry(uint32_t frequency) noexcept;

  MemoryShare* const share_;
  const size_t frame_bytes_;
  const uint32_t step_frames_;
  const std::unique_ptr<EpochManager> own_epochs_;  // null: those of another cache are used
  EpochManager& epochs_;
  FrequencySketch sketch_;
  Region word_memory_;  // std::atomic<uint32_t> each
  std::unique_ptr<FramePool> pool_;

  // Written now and then, read by every offer.
  alignas(64) std::atomic<uint32_t> bar_{0};  // the frequency that the next victim's frame takes
  std::atomic<uint32_t> reserve_{0};
  std::atomic<bool> may_grow_{false};
  std::atomic<uint32_t> ahead_{0};        // of kAheadFraction
  std::atomic<int64_t> scarce_count_{0};  // below 0: enough can still be booked
  // Written seldom.
  alignas(64) std::atomic<uint32_t> refusals_{0};
  std::array<std::atomic<uint64_t>, kFrameKindCount> admissions_{};
  std::atomic<uint64_t> uncounted_admissions_{0};
  // Memory was given up, and no content that is used has asked for more since.
  std::atomic<bool> has_shrunk_{false};
  std::mutex limit_mutex_;
  // The memory that the frames may use. Written under limit_mutex_.
  std::atomic<uint64_t> booked_bytes_{0};
  // More memory is booked only if at least this much can be had. After memory was given back it is
  // a whole step. So an index that grows slowly does not make the same frames come and go. Written
  // under limit_mutex_.
  std::atomic<uint64_t> least_growth_bytes_;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_CACHE_H_

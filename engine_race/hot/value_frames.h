// Hot values in memory: frames of 4 KiB that the index leads to in the place of the log's slots.
//
// A read enters the epoch, asks the index, and finds either a slot, to be read from the log, or the
// frame itself. Values that were read from the log are offered; what is read often enough, by a
// sketch of how often each key was asked for lately, gets the frame of what is read less. So a pass
// over everything, or reads that never come back, take nothing from what is hot and pay little: one
// line of the sketch, and one comparison with how often the next to go was asked for.
//
// Frames are never written to once they can be reached, so nothing of them has to be written back.
// A record that a newer one has superseded is not the newest of its key any more: its frame goes
// when the hand that looks for frames to evict comes by, however often the key is asked for.
//
// Thread-safe. Outlived by the index, which leads to no frame any more when this is destroyed; by
// then nobody is inside a call.
#ifndef ENGINE_RACE_HOT_VALUE_FRAMES_H_
#define ENGINE_RACE_HOT_VALUE_FRAMES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/memory.h"
#include "engine_race/base/memory_share.h"
#include "engine_race/base/status.h"
#include "engine_race/hot/frequency_sketch.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_pool.h"

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

struct ValueFrameStats {
  uint64_t memory_bytes = 0;  // of frames in use and of what describes all of them
  uint64_t limit_bytes = 0;
  uint64_t value_count = 0;
  uint64_t hit_count = 0;
  uint64_t miss_count = 0;  // values that were not in a frame when they were asked for
  uint64_t admission_count = 0;
  uint64_t eviction_count = 0;
};

class ValueFrames final : public MemoryUser {
 public:
  // Frames for at most `max_bytes`, with all that describes them. They are booked from `share`, a
  // few at a time as they are used; null: all may be used at once. kOutOfMemory; *frames is null
  // where there is no room for a single one.
  static Status Create(Index* index, uint64_t max_bytes, MemoryShare* share,
                       std::unique_ptr<ValueFrames>* frames, const Placement& placement = {});
  ~ValueFrames();

  // What so many frames take with all that describes them.
  static uint64_t BytesFor(uint32_t frame_count);

  // Where the newest value of `key` is: use(const char* value) is called when that is a frame, and
  // *hot set; else *ref is the slot to read. As Index::Find otherwise. `use` does not wait for
  // anything; it may throw.
  template <typename UseFn>
  Status Find(uint64_t key, ValueRef* ref, bool* hot, const UseFn& use);
  // The same at the epoch of a view. It makes nothing hotter: who walks over everything reads so.
  template <typename UseFn>
  Status FindAt(uint64_t key, uint64_t view_epoch, ValueRef* ref, bool* hot, const UseFn& use);

  // Fetches what Offer looks at first, which by then has left the caches if the read went to a
  // device: to be called when the value has come, before it is verified.
  void PrepareOffer(uint64_t key) const { sketch_.Prefetch(key); }
  // Notes that `key` was asked for and found at `ref`, a slot of the log, whose value of 4 KiB lies
  // at `value`; keeps a copy if that is worth a frame and matches the value's checksum. Not from
  // inside Find.
  void Offer(uint64_t key, ValueRef ref, const char* value) noexcept;

  // Evicts down to `limit_bytes` and gives the memory behind it back. Not for frames with a share.
  void SetLimit(uint64_t limit_bytes) noexcept;

  // Hits and admissions.
  uint64_t UseCount() const noexcept override;
  // Evicts, a step at a time. A frame that a reader holds for long is given back by a later call.
  void ShrinkTo(uint64_t bytes) noexcept override;

  // Whether frames should be evicted ahead of need, so that an admission need not wait for readers.
  bool RunsLow() const { return is_full() && pool_->spare_count() < reserve() / 2; }
  // Does some of that: true while there is more to do. As a task or a thread of its own may.
  bool EvictSome() noexcept { return pool_->EvictAhead(reserve()); }

  uint64_t admission_count() const { return admissions_.load(std::memory_order_relaxed); }
  // What is in use, as of now.
  uint64_t memory_bytes() const;
  ValueFrameStats Stats() const;

 private:
  // Seldom asked for: not worth a frame, even a free one.
  static constexpr uint32_t kLeastFrequency = 2;
  // One in so many of those who are not worth the next victim's frame has another one found.
  static constexpr uint32_t kRefusals = 64;
  // A value is let in when its frequency is above the victim's by more than this: those that are
  // asked for about as often do not push each other out all the time.
  static constexpr uint32_t kMargin = 2;
  // So many frames are booked, and given back, together.
  static constexpr uint64_t kFramesPerStep = 64;

  // The index has the swips.
  class Owner final : public FrameOwner {
   public:
    explicit Owner(ValueFrames* frames) : frames_(*frames) {}
    Cooled Cool(uint32_t frame, FrameInfo* info) noexcept override;
    bool WasHeated(uint32_t frame, FrameInfo* info) noexcept override;
    bool Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept override;
    // A value has nothing beside its bytes.
    void Release(uint32_t /*frame*/, FrameInfo* /*info*/) noexcept override {}

    // Whether the newest record of the frame's key leads to it, and how.
    bool IsNewest(uint32_t frame, ValueRef* ref) const noexcept;

   private:
    ValueFrames& frames_;
  };

  ValueFrames(Index* index, MemoryShare* share) : index_(*index), share_(share), owner_(this) {}

  // What all that describes the frames takes, whatever the limit.
  static uint64_t FixedBytes(uint32_t max_count);
  uint32_t CountFor(uint64_t limit_bytes) const;
  // Frames that are kept free when all are in use.
  uint32_t reserve() const {
    return reserve_.load(std::memory_order_relaxed);  // a hint
  }
  // Whether few are left, so that it matters how often what has one is asked for. Relaxed: a hint.
  bool AreScarce() const {
    return int64_t{pool_->spare_count()} <= scarce_count_.load(std::memory_order_relaxed);
  }
  bool is_full() const { return pool_->spare_count() <= reserve(); }
  // Books some more frames; false when there are none to be had now.
  bool Grow() noexcept;
  // Both with limit_mutex_ held.
  void ApplyBooked() noexcept;
  void UpdateHints() noexcept;
  uint32_t WorthOf(uint32_t frame) const noexcept;
  bool IsWorthATry(uint32_t frequency) noexcept;
  void Admit(uint64_t key, ValueRef ref, const char* value, uint32_t frequency) noexcept;

  Index& index_;
  MemoryShare* const share_;
  Owner owner_;
  EpochManager epochs_;
  FrequencySketch sketch_;
  Region slot_memory_;  // std::atomic<uint32_t> each
  std::unique_ptr<FramePool> pool_;

  // Written now and then, read by every offer.
  alignas(64) std::atomic<uint32_t> threshold_{0};  // how frequent the next to go is
  std::atomic<uint32_t> reserve_{0};
  std::atomic<int64_t> scarce_count_{0};  // below 0: enough can still be booked
  // Written by what seldom happens.
  alignas(64) std::atomic<uint32_t> refusals_{0};
  std::atomic<uint64_t> admissions_{0};
  std::mutex limit_mutex_;
  // What may be used; written under limit_mutex_.
  std::atomic<uint64_t> booked_bytes_{0};
  // What there must be room for before more is booked: after memory was given back a whole step, so
  // that an index that grows little by little does not take and leave the same frames each time.
  // Written under limit_mutex_.
  std::atomic<uint64_t> least_growth_bytes_{kValueBytes};
};

template <typename UseFn>
Status ValueFrames::Find(uint64_t key, ValueRef* ref, bool* hot, const UseFn& use) {
  // What is noted is fetched before it is needed: where hits are noted too, before all else.
  const bool scarce = AreScarce();
  if (scarce) sketch_.Prefetch(key);
  {
    EpochManager::Guard guard(epochs_);
    Status status = index_.FindHot(key, ref);
    *hot = status.ok() && ref->hot();
    if (!*hot) {
      guard.CountMiss();
      return status;
    }
    guard.CountHit();
    ENGINE_RACE_ASSERT(ref->frame() < pool_->frame_count());
    use(static_cast<const char*>(pool_->data(ref->frame())));
    if (ref->cooling()) [[unlikely]] {
      index_.Heat(key, ref->frame());
    }
  }
  if (scarce) sketch_.Note(key);
  return Status::Ok();
}

template <typename UseFn>
Status ValueFrames::FindAt(uint64_t key, uint64_t view_epoch, ValueRef* ref, bool* hot,
                           const UseFn& use) {
  EpochManager::Guard guard(epochs_);
  Status status = index_.FindHotAt(key, view_epoch, ref);
  *hot = status.ok() && ref->hot();
  if (!*hot) {
    guard.CountMiss();
    return status;
  }
  guard.CountHit();
  use(static_cast<const char*>(pool_->data(ref->frame())));
  return Status::Ok();
}

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_HOT_VALUE_FRAMES_H_

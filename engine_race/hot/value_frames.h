// Hot values: frames of 4 KiB to which the index leads instead of to slots of the log.
//
// A read enters the epoch and asks the index. It finds a slot, to be read from the log, or a frame.
// Values that were read from the log are offered. A value is admitted only if the sketch says that
// it is read more often than the victim. So a scan, or reads of keys that are not read again, evict
// nothing. They cost one line of the sketch and one comparison with the victim's frequency.
//
// A frame is not written to while it can be reached, so nothing is ever written back. When a newer
// record supersedes the frame's record, the frame is an orphan. It is evicted when the hand reaches
// it, however often its key is read.
//
// Thread-safe. The index outlives it. When it is destroyed no call may be running, and the index
// leads to no frame afterwards.
#ifndef ENGINE_RACE_HOT_VALUE_FRAMES_H_
#define ENGINE_RACE_HOT_VALUE_FRAMES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/memory_share.h"
#include "engine_race/base/status.h"
#include "engine_race/hot/frequency_sketch.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_pool.h"

namespace engine_race {

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
  // Makes frames for at most `max_bytes`, descriptions included. They are booked from `share`, a
  // few at a time as they are used. Without a share all may be used at once. *frames is null when
  // there is no room for a single frame. kOutOfMemory.
  static Status Create(Index* index, uint64_t max_bytes, MemoryShare* share,
                       std::unique_ptr<ValueFrames>* frames, const Placement& placement = {});
  ~ValueFrames();

  // The memory of `frame_count` frames and all their descriptions.
  static uint64_t BytesFor(uint32_t frame_count);

  // Finds the newest value of `key`. If it is in a frame, calls use(const char* value) and sets
  // *hot. Otherwise *ref is the slot to read. Fails like Index::Find. `use` must not wait for
  // anything; it may throw.
  template <typename UseFn>
  Status Find(uint64_t key, ValueRef* ref, bool* hot, const UseFn& use);
  // Finds the value that a view of `version` shows. It does not count as a read of the key and
  // heats no frame, because scans read so.
  template <typename UseFn>
  Status FindAt(uint64_t key, uint64_t version, ValueRef* ref, bool* hot, const UseFn& use);

  // Fetches the memory that Offer reads first. To be called when the value was read, before it is
  // verified. A read from a device takes so long that the memory has left the caches.
  void PrepareOffer(uint64_t key) const { sketch_.Prefetch(key); }
  // Notes that `key` was read and found at `ref`, a slot of the log. `value` has its 4 KiB. Keeps a
  // copy if the value is worth a frame and matches its checksum. Not from inside Find.
  void Offer(uint64_t key, ValueRef ref, const char* value) noexcept;

  // Evicts frames down to `limit_bytes` and gives their memory back. Not for frames with a share.
  void SetLimit(uint64_t limit_bytes) noexcept;

  // The number of hits and admissions.
  uint64_t UseCount() const noexcept override;
  // Evicts frames, a step at a time. A frame that a reader holds for long is given back by a later
  // call.
  void ShrinkTo(uint64_t bytes) noexcept override;

  // Whether frames should be evicted ahead of need, so that an admission does not wait for readers.
  bool RunsLow() const { return is_full() && pool_->spare_count() < reserve() / 2; }
  // Evicts a few frames ahead of need. True while there is more to do. For a task or a thread of
  // its own.
  bool EvictSome() noexcept { return pool_->EvictAhead(reserve()); }

  uint64_t admission_count() const { return admissions_.load(std::memory_order_relaxed); }
  // The memory that is in use now.
  uint64_t memory_bytes() const;
  ValueFrameStats Stats() const;

 private:
  // A value of lower frequency gets no frame, even a free one.
  static constexpr uint32_t kLeastFrequency = 2;
  // One in so many values that are refused because of threshold_ is compared with the current
  // victim.
  static constexpr uint32_t kRefusals = 64;
  // A value is admitted if its frequency is above the victim's by more than this. So values of
  // about the same frequency do not evict each other all the time.
  static constexpr uint32_t kMargin = 2;
  // So many frames are booked together, or given back together.
  static constexpr uint64_t kFramesPerStep = 64;

  // Finds the swips of the frames in the index.
  class Owner final : public l1::FrameOwner {
   public:
    explicit Owner(ValueFrames* frames) : frames_(*frames) {}
    Cooled Cool(uint32_t frame, l1::FrameInfo* info) noexcept override;
    bool WasHeated(uint32_t frame, l1::FrameInfo* info) noexcept override;
    bool Unswizzle(uint32_t frame, l1::FrameInfo* info, bool only_cooling) noexcept override;
    // A value's frame has nothing beside its bytes.
    void Release(uint32_t /*frame*/, l1::FrameInfo* /*info*/) noexcept override {}

    // Whether the newest record of the frame's key leads to it. *ref is that record.
    bool IsNewest(uint32_t frame, ValueRef* ref) const noexcept;

   private:
    ValueFrames& frames_;
  };

  ValueFrames(Index* index, MemoryShare* share) : index_(*index), share_(share), owner_(this) {}

  // The memory of all descriptions of frames, whatever the limit.
  static uint64_t FixedBytes(uint32_t max_count);
  uint32_t CountFor(uint64_t limit_bytes) const;
  // How many frames are kept free when all others are in use.
  uint32_t reserve() const {
    return reserve_.load(std::memory_order_relaxed);  // a hint
  }
  // Whether so few frames are left that reads from frames must be noted too. Relaxed: a hint.
  bool AreScarce() const {
    return int64_t{pool_->spare_count()} <= scarce_count_.load(std::memory_order_relaxed);
  }
  bool is_full() const { return pool_->spare_count() <= reserve(); }
  // Books some more frames. False when none can be had now.
  bool Grow() noexcept;
  // Both are called with limit_mutex_ held.
  void ApplyBooked() noexcept;
  void UpdateHints() noexcept;
  uint32_t WorthOf(uint32_t frame) const noexcept;
  bool IsWorthATry(uint32_t frequency) noexcept;
  void Admit(uint64_t key, ValueRef ref, const char* value, uint32_t frequency) noexcept;

  Index& index_;
  MemoryShare* const share_;
  Owner owner_;
  l1::EpochManager epochs_;
  FrequencySketch sketch_;
  Region slot_memory_;  // std::atomic<uint32_t> each
  std::unique_ptr<l1::FramePool> pool_;

  // Written now and then, read by every offer.
  alignas(64) std::atomic<uint32_t> threshold_{0};  // the frequency of the victim
  std::atomic<uint32_t> reserve_{0};
  std::atomic<int64_t> scarce_count_{0};  // below 0: enough can still be booked
  // Written seldom.
  alignas(64) std::atomic<uint32_t> refusals_{0};
  std::atomic<uint64_t> admissions_{0};
  std::mutex limit_mutex_;
  // The memory that the frames may use. Written under limit_mutex_.
  std::atomic<uint64_t> booked_bytes_{0};
  // More memory is booked only if at least this much can be had. After memory was given back it is
  // a whole step. So an index that grows slowly does not make the same frames come and go. Written
  // under limit_mutex_.
  std::atomic<uint64_t> least_growth_bytes_{kValueBytes};
};

template <typename UseFn>
Status ValueFrames::Find(uint64_t key, ValueRef* ref, bool* hot, const UseFn& use) {
  // If reads from frames are noted too, the sketch's line is fetched before all else.
  const bool scarce = AreScarce();
  if (scarce) sketch_.Prefetch(key);
  {
    l1::EpochManager::Guard guard(epochs_);
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
Status ValueFrames::FindAt(uint64_t key, uint64_t version, ValueRef* ref, bool* hot,
                           const UseFn& use) {
  l1::EpochManager::Guard guard(epochs_);
  Status status = index_.FindHotAt(key, version, ref);
  *hot = status.ok() && ref->hot();
  if (!*hot) {
    guard.CountMiss();
    return status;
  }
  guard.CountHit();
  use(static_cast<const char*>(pool_->data(ref->frame())));
  return Status::Ok();
}

}  // namespace engine_race

#endif  // ENGINE_RACE_HOT_VALUE_FRAMES_H_

// Frames: memory of one size each, that hot things are kept in, and who has to go when it is full.
//
// A frame is found through one swip. Frames are hot, cooling or free. The pool keeps a part of its
// frames cooling: taken by a hand that goes round, marked in their swips, lined up; a read that
// meets the mark takes it off again. A frame that reaches the end of the line with its mark is
// taken out of reach, and used again when every reader inside the epoch has left.
//
// Where a frame's swip is, its owner knows: a table by a pointer that the frame keeps, the engine's
// values by their key, for what the index holds moves about.
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

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/base/swip.h"
#include "engine_race/l1/epoch.h"

namespace engine_race::l1 {

// What the pool knows of a frame beside its bytes. Nothing of it is ever on disk.
struct alignas(64) FrameInfo {
  // The count of children is closed: the frame is on its way out.
  static constexpr uint32_t kClosed = ~uint32_t{0};

  // The swip that leads here; its memory outlives the frame's being hot.
  std::atomic<uint64_t>* parent = nullptr;
  // Where the bytes came from: what the swip gets back.
  uint32_t place = 0;
  // The frame that holds `parent`, and counts this one among its children; kNoFrame for none.
  uint32_t parent_frame = ~uint32_t{0};
  // The owner's, to tell its frames apart. Of frames that know their parents: 0, or the
  // ParentFinder that is asked in their place.
  uint64_t tag = 0;
  // Hot frames that are reached through this one: while there are any, it stays.
  std::atomic<uint32_t> child_count{0};
  // For readers that count themselves instead of entering the epoch.
  std::atomic<uint32_t> reader_count{0};
  // The swips of what is reached through this frame; null for a leaf.
  std::unique_ptr<std::atomic<uint64_t>[]> children;

  // False when the frame is on its way out.
  bool AddChild() {
    uint32_t count = child_count.load(std::memory_order_relaxed);
    do {
      if (count == kClosed) return false;
      // Acquire and release: pair with Close and with each other.
    } while (!child_count.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel,
                                                std::memory_order_relaxed));
    return true;
  }
  // True when it was the last one.
  bool RemoveChild() { return child_count.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  // True when there were no children, and from then on there will be none.
  bool Close() {
    uint32_t none = 0;
    return child_count.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel,
                                               std::memory_order_relaxed);
  }

 private:
  friend class FramePool;
  enum class State : uint8_t { kFree, kTaken, kHot, kCooling, kRetired, kOutside };
  // Under the pool's mutex.
  State state = State::kOutside;
  // In the one line that the frame stands in: of free, cooling or retired ones.
  uint32_t previous = ~uint32_t{0};
  uint32_t next = ~uint32_t{0};
  uint64_t retired_epoch = 0;
};
static_assert(sizeof(FrameInfo) == 64);

// Whoever has the swips that lead to a pool's frames. Called under the pool's mutex, for frames
// that were installed.
class FrameOwner {
 public:
  enum class Cooled {
    kMarked,
    kStays,  // it cannot go now
    kGone,   // nothing that a reader would still want leads to it: it goes at once
  };
  // Marks the frame's swip as cooling.
  virtual Cooled Cool(uint32_t frame) noexcept = 0;
  // Whether somebody has taken the mark off.
  virtual bool WasHeated(uint32_t frame) noexcept = 0;
  // Gives the frame's swip its place back, so that no reader can find the frame any more: false
  // when it cannot go now or, `only_cooling`, when the mark has been taken off.
  virtual bool Unswizzle(uint32_t frame, bool only_cooling) noexcept = 0;

 protected:
  ~FrameOwner() = default;
};

// Finds what leads to a block by a search from the top: what frames that know their parents make
// unnecessary, kept to be compared with. Asked under the pool's mutex.
class ParentFinder {
 public:
  // The swip that leads to `frame`, and in *parent_frame the frame that holds it, or kNoFrame.
  virtual std::atomic<uint64_t>* FindParent(uint32_t frame, uint32_t* parent_frame) const = 0;

 protected:
  ~ParentFinder() = default;
};

class FramePool {
 public:
  static constexpr uint32_t kNoFrame = ~uint32_t{0};

  // Room for `frame_count` frames of `frame_bytes`, taken from the system as they are used. Without
  // an owner, frames know their parents: see FrameInfo. kOutOfMemory.
  static Status Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                       FrameOwner* owner, std::unique_ptr<FramePool>* pool);
  ~FramePool();

  char* data(uint32_t frame) const { return memory_.data() + frame * frame_bytes_; }
  FrameInfo& info(uint32_t frame) const { return infos()[frame]; }

  // A frame that nobody else knows; kNoFrame when all are in use and none can be evicted now. Not
  // from inside the epoch, nor is any call below but InstallBlock and Heat.
  uint32_t Take();
  // The same for who takes a frame only from something that is worth less. While no more than
  // `reserve` frames can be had without eviction, the frame that would go next goes for it if
  // `goes(frame)` says so, called under the mutex; if not, it is spared
  // until the hand comes round again, and the answer is kNoFrame. So it is, too, while readers have
  // to leave first.
  template <typename GoesFn>
  uint32_t TakeInExchange(uint32_t reserve, const GoesFn& goes) noexcept;
  // Shows look(frame) the frame that would go next, under the mutex; false when there is none.
  template <typename LookFn>
  bool LookAtVictim(const LookFn& look) noexcept;
  // Gives back a frame that was taken and never installed.
  void GiveBack(uint32_t frame) noexcept;

  // Makes a frame, filled and described, reachable by `swizzle`, which answers whether it did.
  // Under the mutex, so that eviction finds the state that goes with the swip. False, too, when the
  // limit has come down meanwhile: the frame is to be given back.
  template <typename SwizzleFn>
  bool Install(uint32_t frame, const SwizzleFn& swizzle) {
    const std::lock_guard lock(mutex_);
    if (frame >= limit_ || !swizzle()) return false;
    info(frame).state = State::kHot;
    ++used_count_;
    // Before they are needed, so that who is marked has time to be read again.
    if (spare_count() < CoolingSize()) CoolSome();
    return true;
  }
  // The same of a frame with a parent: true when *info(frame).parent was `expected` until now.
  // Inside the epoch, when there is a parent frame.
  bool InstallBlock(uint32_t frame, Swip expected);
  // Takes the cooling mark off. Inside the epoch.
  static void Heat(std::atomic<uint64_t>* parent, Swip seen) {
    uint64_t word = seen.word();
    // Relaxed: the mark orders nothing; a failure means that somebody else was faster.
    parent->compare_exchange_strong(word, seen.Heated().word(), std::memory_order_relaxed);
  }
  // Takes an installed frame out of reach, unless something is reached through it or its swip has
  // changed: false then.
  bool Remove(uint32_t frame) noexcept;

  // Lets only the first `limit` frames be used, evicts the others, waits for their readers and
  // gives their memory back. What cannot go now, or is held for long, stays until the next call.
  void SetLimit(uint32_t limit) noexcept;
  // Evicts, a few at a time, until `wanted` frames can be had without: true while there are more
  // to go. Nothing that was heated goes.
  bool EvictAhead(uint32_t wanted) noexcept;

  size_t frame_bytes() const { return frame_bytes_; }
  uint32_t frame_count() const { return frame_count_; }
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
  uint64_t eviction_count() const { return evictions_.load(std::memory_order_relaxed); }

 private:
  using State = FrameInfo::State;
  // In line to be evicted, of the frames.
  static constexpr uint32_t kCoolingPercent = 10;
  // So often Take waits for readers to leave the epoch before it gives up.
  static constexpr uint32_t kPatience = 1000;
  static constexpr uint32_t kStuckTries = 64;
  // What one hold of the mutex does at most: frames that the hand or a limit passes, evictions.
  static constexpr uint32_t kMaxSteps = 64;
  static constexpr uint32_t kMaxBatch = 8;

  // Frames in a row, by the numbers in their FrameInfos.
  struct Line {
    uint32_t first = kNoFrame;
    uint32_t last = kNoFrame;
    uint32_t count = 0;
  };

  // The owner of frames that know their parents.
  class Blocks final : public FrameOwner {
   public:
    explicit Blocks(FramePool* pool) : pool_(*pool) {}
    Cooled Cool(uint32_t frame) noexcept override;
    bool WasHeated(uint32_t frame) noexcept override;
    bool Unswizzle(uint32_t frame, bool only_cooling) noexcept override;

   private:
    // As the frame's parent pointer has it or, where its tag is a ParentFinder, as that finds it.
    std::atomic<uint64_t>* ParentOf(uint32_t frame, uint32_t* parent_frame) const;

    FramePool& pool_;
  };

  FramePool(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs, FrameOwner* owner)
      : frame_bytes_(frame_bytes),
        frame_count_(frame_count),
        epochs_(epochs),
        blocks_(this),
        owner_(owner == nullptr ? blocks_ : *owner),
        limit_(frame_count) {}

  FrameInfo* infos() const { return reinterpret_cast<FrameInfo*>(info_memory_.data()); }

  // All under mutex_, up to the fields.
  void CoolNow(uint32_t frame);
  void Append(Line* line, uint32_t frame, State state);
  void Unlink(Line* line, uint32_t frame);
  uint32_t TakeFree();
  void Free(uint32_t frame);
  uint32_t BatchSize() const { return limit_ / 64 < kMaxBatch ? limit_ / 64 + 1 : kMaxBatch; }
  uint32_t CoolingSize() const {
    return static_cast<uint32_t>(touched_count_ * uint64_t{kCoolingPercent} / 100) + 1;
  }
  void CoolSome();
  uint32_t FindVictim();
  bool EvictVictim();
  bool Evict(uint32_t frame, bool only_cooling);
  void Reclaim();
  void CountSpare() {
    // Relaxed: a hint.
    spare_count_.store(free_.count + (limit_ > touched_count_ ? limit_ - touched_count_ : 0),
                       std::memory_order_relaxed);
  }

  // With resize_mutex_ held.
  void Grow(uint32_t old_limit);
  void Empty(uint32_t frame);
  void DropTail(uint32_t limit);

  const size_t frame_bytes_;
  const uint32_t frame_count_;
  EpochManager* const epochs_;
  Blocks blocks_;
  FrameOwner& owner_;
  Region memory_;
  Region info_memory_;  // FrameInfo each, made as frames are first used
  std::atomic<uint64_t> evictions_{0};
  std::atomic<uint32_t> spare_count_{0};
  std::mutex resize_mutex_;  // before mutex_

  mutable std::mutex mutex_;
  Line free_;
  Line cooling_;
  Line retired_;
  uint32_t limit_;
  uint32_t touched_count_ = 0;  // frames from this one on hold no memory
  uint32_t made_count_ = 0;     // FrameInfos
  uint32_t used_count_ = 0;
  uint32_t hand_ = 0;
};

template <typename GoesFn>
uint32_t FramePool::TakeInExchange(uint32_t reserve, const GoesFn& goes) noexcept {
  const std::lock_guard lock(mutex_);
  // Several at once, for it takes a look at every reader.
  if (spare_count() <= reserve && retired_.count >= BatchSize()) Reclaim();
  if (spare_count() <= reserve) {
    const uint32_t victim = FindVictim();
    if (victim == kNoFrame) return kNoFrame;
    if (!goes(victim)) {
      // The hand marks another one in its place, and comes back to it in time.
      Unlink(&cooling_, victim);
      info(victim).state = State::kHot;
      return kNoFrame;
    }
    // Not one after the other while readers keep all of them from being used again.
    if (retired_.count > reserve + BatchSize() || !EvictVictim()) return kNoFrame;
  }
  return TakeFree();
}

template <typename LookFn>
bool FramePool::LookAtVictim(const LookFn& look) noexcept {
  const std::lock_guard lock(mutex_);
  const uint32_t victim = FindVictim();
  if (victim != kNoFrame) look(victim);
  return victim != kNoFrame;
}

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_POOL_H_

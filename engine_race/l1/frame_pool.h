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
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

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
  // The owner's: which table, which extent, or whatever tells its pages apart.
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
  void RemoveChild() { child_count.fetch_sub(1, std::memory_order_acq_rel); }
  // True when there were no children, and from then on there will be none.
  bool Close() {
    uint32_t none = 0;
    return child_count.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel,
                                               std::memory_order_relaxed);
  }
};

// Whoever has the swips that lead to a pool's frames. Called under the pool's mutex, for frames
// that were installed.
class FrameOwner {
 public:
  // Marks the frame's swip as cooling: false when the frame cannot go now.
  virtual bool Cool(uint32_t frame) noexcept = 0;
  // Gives the frame's swip its place back, so that no reader can find the frame any more: false
  // when it cannot go now or, `only_cooling`, when the mark has been taken off.
  virtual bool Unswizzle(uint32_t frame, bool only_cooling) noexcept = 0;

 protected:
  ~FrameOwner() = default;
};

class FramePool {
 public:
  static constexpr uint32_t kNoFrame = ~uint32_t{0};

  // Room for `frame_count` frames of `frame_bytes`, taken from the system as they are used. Without
  // an owner, frames know their parents: see FrameInfo. kOutOfMemory.
  static Status Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                       FrameOwner* owner, std::unique_ptr<FramePool>* pool);

  char* data(uint32_t frame) const { return memory_.data() + frame * frame_bytes_; }
  FrameInfo& info(uint32_t frame) const { return infos_[frame]; }

  // A frame that nobody else knows; kNoFrame when all are in use and none can be evicted now. Not
  // from inside the epoch.
  uint32_t Take();
  // Gives back a frame that was taken and never installed.
  void GiveBack(uint32_t frame);

  // Makes a frame, filled and described, reachable by `swizzle`, which answers whether it did.
  // Under the mutex, so that eviction finds the state that goes with the swip.
  template <typename SwizzleFn>
  bool Install(uint32_t frame, const SwizzleFn& swizzle) {
    const std::lock_guard lock(mutex_);
    if (!swizzle()) return false;
    states_[frame] = State::kHot;
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
  bool Remove(uint32_t frame);

  size_t frame_bytes() const { return frame_bytes_; }
  uint32_t frame_count() const { return frame_count_; }
  uint32_t used_count() const;
  size_t memory_bytes() const;
  uint64_t eviction_count() const { return evictions_.load(std::memory_order_relaxed); }

 private:
  // In line to be evicted, of the frames.
  static constexpr uint32_t kCoolingPercent = 10;
  // So often Take waits for readers to leave the epoch before it gives up.
  static constexpr uint32_t kPatience = 1000;
  enum class State : uint8_t { kFree, kTaken, kHot, kCooling, kRetired };
  struct Retired {
    uint32_t frame;
    uint64_t epoch;
  };

  // The owner of frames that know their parents.
  class Blocks final : public FrameOwner {
   public:
    explicit Blocks(FramePool* pool) : pool_(*pool) {}
    bool Cool(uint32_t frame) noexcept override;
    bool Unswizzle(uint32_t frame, bool only_cooling) noexcept override;

   private:
    FramePool& pool_;
  };

  FramePool(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs, FrameOwner* owner)
      : frame_bytes_(frame_bytes),
        frame_count_(frame_count),
        epochs_(epochs),
        blocks_(this),
        owner_(owner == nullptr ? blocks_ : *owner) {}

  uint32_t TakeFree();
  // All under mutex_.
  void CoolSome();
  bool EvictOne();
  bool Evict(uint32_t frame, bool only_cooling);
  void Reclaim();

  const size_t frame_bytes_;
  const uint32_t frame_count_;
  EpochManager* const epochs_;
  Blocks blocks_;
  FrameOwner& owner_;
  Region memory_;
  std::unique_ptr<FrameInfo[]> infos_;
  std::atomic<uint64_t> evictions_{0};

  mutable std::mutex mutex_;
  std::vector<State> states_;
  std::vector<uint32_t> free_;
  std::deque<uint32_t> cooling_;
  std::deque<Retired> retired_;
  uint32_t touched_ = 0;  // frames from this one on have never been used
  uint32_t hand_ = 0;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_POOL_H_

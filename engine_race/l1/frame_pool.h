// Frames: memory of one size each, that hot things are kept in, and who has to go when it is full.
//
// A frame is found through one swip, its parent; the pool keeps where that swip is, so that
// eviction needs no search. Frames are hot, cooling or free. The pool keeps a part of its frames
// cooling: taken by a hand that goes round, marked in their swips, lined up; a read that meets the
// mark takes it off again. A frame that reaches the end of the line with its mark is taken out of
// reach, and used again when every reader inside the epoch has left.
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
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/swip.h"

namespace engine_race::l1 {

// What the pool knows of a frame beside its bytes. Nothing of it is ever on disk.
struct alignas(64) FrameInfo {
  // Where the swip is that leads here. Set before the frame is hot.
  std::atomic<std::atomic<uint64_t>*> parent{nullptr};
  // Where the bytes came from: what the swip gets back.
  uint32_t place = 0;
  // The owner's.
  uint64_t tag = 0;
  // Frames that are reached through this one: while there are any, it stays.
  std::atomic<uint32_t> hot_children{0};
  // The frame whose hot_children counts this one; kNoFrame for none.
  uint32_t parent_frame = ~uint32_t{0};
  // For readers that count themselves instead of entering the epoch.
  std::atomic<uint32_t> readers{0};
};

class FramePool {
 public:
  static constexpr uint32_t kNoFrame = ~uint32_t{0};

  // Room for `frame_count` frames of `frame_bytes`, taken from the system as they are used.
  // kOutOfMemory.
  static Status Create(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs,
                       std::unique_ptr<FramePool>* pool);

  char* data(uint32_t frame) const { return memory_.data() + frame * frame_bytes_; }
  FrameInfo& info(uint32_t frame) const { return infos_[frame]; }

  // A frame that nobody else knows; kNoFrame when all are in use and none can be evicted now. Not
  // from inside the epoch.
  uint32_t Take();
  // Gives back a frame that was taken and never installed.
  void GiveBack(uint32_t frame);

  // Makes a frame, filled and described, reachable: true when `*parent` was `expected` until now.
  bool Install(uint32_t frame, std::atomic<uint64_t>* parent, Swip expected);
  // Takes the cooling mark off. Inside the epoch.
  static void Heat(std::atomic<uint64_t>* parent, Swip seen) {
    uint64_t word = seen.word();
    // Relaxed: the mark orders nothing; a failure means that somebody else was faster.
    parent->compare_exchange_strong(word, seen.Heated().word(), std::memory_order_relaxed);
  }
  // Takes an installed frame out of reach, unless something is reached through it or its swip has
  // changed: false then.
  bool Remove(uint32_t frame);

  uint32_t frame_count() const { return frame_count_; }
  uint32_t used_count() const;
  size_t memory_bytes() const;
  uint64_t eviction_count() const { return evictions_.load(std::memory_order_relaxed); }

 private:
  // Of the frames, in line to be evicted.
  static constexpr uint32_t kCoolingPercent = 10;
  enum class State : uint8_t { kFree, kTaken, kHot, kCooling, kRetired };
  struct Retired {
    uint32_t frame;
    uint64_t epoch;
  };

  FramePool(size_t frame_bytes, uint32_t frame_count, EpochManager* epochs)
      : frame_bytes_(frame_bytes), frame_count_(frame_count), epochs_(epochs) {}

  // All under mutex_.
  void Cool();
  bool EvictOne();
  void Reclaim();
  bool TakeOutOfReach(uint32_t frame, bool only_cooling);

  const size_t frame_bytes_;
  const uint32_t frame_count_;
  EpochManager* const epochs_;
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

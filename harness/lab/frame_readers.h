// Readers of blocks, which protect their frames from being used again. EpochReader enters the
// epoch. CountReader counts itself in every frame that it reads, and exists to be compared with.
//
// A reader lives for one lookup in memory, and belongs to one thread.
#ifndef HARNESS_LAB_FRAME_READERS_H_
#define HARNESS_LAB_FRAME_READERS_H_

#include <atomic>
#include <cstdint>

#include "harness/lab/engine_names.h"
#include "harness/lab/table_frames.h"

namespace lab {

class EpochReader {
 public:
  EpochReader(const TableFrames* /*frames*/, EpochManager* epochs) : guard_(*epochs) {}

  // Finds the frame that the swip leads to; false when it leads to none. The frame is not used
  // again while the reader lives. A cooling frame becomes hot. The swip lies in a frame that this
  // reader protects, or outlives the reader.
  bool Follow(std::atomic<uint64_t>* at, uint32_t* frame) const {
    // Sequentially consistent: must not move ahead of the entry into the epoch. Also an acquire:
    // pairs with the release of BlockOwner::Install.
    const Swip swip(at->load(std::memory_order_seq_cst));
    if (!swip.hot()) [[unlikely]] {
      return false;
    }
    if (swip.cooling()) [[unlikely]] {
      BlockOwner::Heat(at, swip);
    }
    *frame = swip.number();
    return true;
  }

 private:
  const EpochManager::Guard guard_;
};

class CountReader {
 public:
  CountReader(const TableFrames* frames, EpochManager* /*epochs*/) : frames_(*frames) {}
  CountReader(const CountReader&) = delete;
  CountReader& operator=(const CountReader&) = delete;
  ~CountReader() {
    for (uint32_t i = 0; i < held_count_; ++i) Leave(held_[i]);
  }

  bool Follow(std::atomic<uint64_t>* at, uint32_t* frame) {
    // Acquire: pairs with the release of BlockOwner::Install.
    Swip swip(at->load(std::memory_order_acquire));
    while (swip.hot()) {
      // First counts, then reads the swip again, both sequentially consistent. So either
      // TableFrames sees the count, or the reader sees that the swip has changed.
      frames_.reader_count(swip.number()).fetch_add(1, std::memory_order_seq_cst);
      const Swip again(at->load(std::memory_order_seq_cst));
      if (again.hot() && again.number() == swip.number()) {
        if (again.cooling()) [[unlikely]] {
          BlockOwner::Heat(at, again);
        }
        *frame = held_[held_count_++] = again.number();
        return true;
      }
      Leave(swip.number());
      swip = again;
    }
    return false;
  }

 private:
  // Release: keeps this reader's reads before it; pairs with the loads in TableFrames.
  void Leave(uint32_t frame) {
    frames_.reader_count(frame).fetch_sub(1, std::memory_order_release);
  }

  const TableFrames& frames_;
  // An index block and a block of records.
  uint32_t held_[2];
  uint32_t held_count_ = 0;
};

}  // namespace lab

#endif  // HARNESS_LAB_FRAME_READERS_H_

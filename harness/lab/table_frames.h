// The frames of tables, and the readers that protect frames from being used again. EpochReader
// enters the epoch. CountReader counts itself in every frame that it reads, and exists to be
// compared with.
//
// TableFrames is thread-safe and outlives the tables. A reader lives for one lookup and belongs to
// one thread.
#ifndef HARNESS_LAB_TABLE_FRAMES_H_
#define HARNESS_LAB_TABLE_FRAMES_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "harness/lab/block_shape.h"

namespace engine_race::lab {

// The engine's frame pool. It has more frames than its tables have blocks, so it evicts none.
// Lookups nevertheless do all that eviction asks of them.
class TableFrames {
 public:
  // Frames of kBlockBytes. kOutOfMemory.
  static Status Create(uint32_t frame_count, std::unique_ptr<TableFrames>* frames) {
    return Guarded([&] {
      std::unique_ptr<TableFrames> made(new TableFrames);
      ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(sizeof(ReaderCount) * frame_count,
                                                   /*huge_pages=*/false, &made->count_memory_));
      ENGINE_RACE_RETURN_IF_ERROR(
          FramePool::Create(kBlockBytes, frame_count, &made->epochs_, &made->pool_));
      made->pool_->SetOwner(FrameKind::kBlock, &made->owner_);
      *frames = std::move(made);
      return Status::Ok();
    });
  }
  // A quarter more frames than blocks, so that no frame is ever cooling.
  static uint32_t CountFor(uint64_t block_count) {
    return static_cast<uint32_t>(block_count + block_count / 4 + 16);
  }

  FramePool* pool() const { return pool_.get(); }
  EpochManager& epochs() { return epochs_; }
  // The count of the frame's readers that do not enter the epoch.
  std::atomic<uint32_t>& reader_count(uint32_t frame) const {
    return reinterpret_cast<ReaderCount*>(count_memory_.data())[frame].count;
  }

 private:
  // Each has a cache line, so that readers of different frames do not write to the same line.
  struct alignas(64) ReaderCount {
    std::atomic<uint32_t> count{0};
  };

  TableFrames() = default;

  EpochManager epochs_;
  BlockOwner owner_;
  Region count_memory_;  // ReaderCount each, zero as the system gives it
  std::unique_ptr<FramePool> pool_;
};

class EpochReader {
 public:
  explicit EpochReader(TableFrames* frames) : guard_(frames->epochs()) {}

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
  explicit CountReader(TableFrames* frames) : frames_(*frames) {}
  CountReader(const CountReader&) = delete;
  CountReader& operator=(const CountReader&) = delete;
  ~CountReader() {
    for (uint32_t i = 0; i < held_count_; ++i) Leave(held_[i]);
  }

  bool Follow(std::atomic<uint64_t>* at, uint32_t* frame) {
    // Acquire: pairs with the release of BlockOwner::Install.
    Swip swip(at->load(std::memory_order_acquire));
    while (swip.hot()) {
      // First counts, then reads the swip again, both sequentially consistent. So an eviction that
      // first changes the swip and then reads the count sees this reader, or is seen by it.
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
  // Release: keeps this reader's reads before it; pairs with an eviction's load.
  void Leave(uint32_t frame) {
    frames_.reader_count(frame).fetch_sub(1, std::memory_order_release);
  }

  const TableFrames& frames_;
  // An index block and a block of records.
  uint32_t held_[2];
  uint32_t held_count_ = 0;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_TABLE_FRAMES_H_

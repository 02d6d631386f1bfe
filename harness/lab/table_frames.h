// The frames of tables: the engine's frame pool, in which frames know their parents, with two
// variants for comparison. In the first one, each eviction searches for the frame's parent from the
// root. In the second one, readers count themselves in each frame that they read.
//
// Thread-safe. The epochs outlive it, and it outlives the tables.
#ifndef HARNESS_LAB_TABLE_FRAMES_H_
#define HARNESS_LAB_TABLE_FRAMES_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "harness/lab/engine_names.h"

namespace lab {

// Finds the swip that leads to a block by a search from the root. Called under the pool's mutex.
class ParentFinder {
 public:
  // The swip that leads to `frame`, and in *parent_frame the frame that holds it, or kNoFrame.
  virtual std::atomic<uint64_t>* FindParent(uint32_t frame, uint32_t* parent_frame) const = 0;

 protected:
  ~ParentFinder() = default;
};

class TableFrames {
 public:
  // Frames of kBlockBytes. kOutOfMemory.
  static Status Create(uint32_t frame_count, EpochManager* epochs,
                       std::unique_ptr<TableFrames>* frames);
  TableFrames(const TableFrames&) = delete;
  TableFrames& operator=(const TableFrames&) = delete;

  // Tables take frames by TableFrames::Take. Nobody may lower the pool's limit: the pool would free
  // frames in which counted readers are.
  FramePool* pool() const { return pool_.get(); }

  // Takes a frame as FramePool::Take does, but one without counted readers.
  uint32_t Take();
  // The frame's parent will be searched for by `finder`. Called between Take and the installation
  // of the frame.
  void SearchFor(uint32_t frame, const ParentFinder* finder) const {
    pool_->info(frame).tag = reinterpret_cast<uint64_t>(finder);
  }
  // The count of the frame's readers that do not enter the epoch.
  std::atomic<uint32_t>& reader_count(uint32_t frame) const {
    return reinterpret_cast<ReaderCount*>(count_memory_.data())[frame].count;
  }

 private:
  // Each has a cache line, so that readers of different frames do not write to the same line.
  struct alignas(64) ReaderCount {
    std::atomic<uint32_t> count{0};
  };
  // How often Take waits for counted readers to leave.
  static constexpr uint32_t kPatience = 1000;

  // The engine's owner of blocks. For frames with a finder it first searches for the parent.
  class Owner final : public FrameOwner {
   public:
    explicit Owner(const TableFrames* frames) : frames_(*frames) {}
    Cooled Cool(uint32_t frame, FrameInfo* info) noexcept override;
    bool WasHeated(uint32_t frame, FrameInfo* info) noexcept override;
    bool Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept override;
    void Release(uint32_t frame, FrameInfo* info) noexcept override;

   private:
    const TableFrames& frames_;
    BlockOwner blocks_;
  };

  TableFrames() : owner_(this) {}

  Owner owner_;
  Region count_memory_;  // ReaderCount each, zero as the system gives it
  std::unique_ptr<FramePool> pool_;
};

}  // namespace lab

#endif  // HARNESS_LAB_TABLE_FRAMES_H_

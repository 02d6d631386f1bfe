// The frames of tables: a pool of the engine's whose frames know their parents, and what the
// experiments put in place of that, to be compared with it. Parents can be searched for from the
// root each time that a frame is evicted, and readers can count themselves in each frame that they
// look at.
//
// Thread-safe. The epochs outlive it, and it outlives the tables.
#ifndef HARNESS_LAB_TABLE_FRAMES_H_
#define HARNESS_LAB_TABLE_FRAMES_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "harness/lab/engine_names.h"

namespace lab {

// Finds what leads to a block by a search from the top. Called under the pool's mutex.
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

  // Frames for tables come from Take below. The pool's limit is not lowered: readers that count
  // themselves do not keep it from giving memory back.
  FramePool* pool() const { return pool_.get(); }

  // As FramePool::Take: a frame with no counted reader inside.
  uint32_t Take();
  // Parents of the frame are searched for. While it is taken, before it is installed.
  void SearchFor(uint32_t frame, const ParentFinder* finder) const {
    pool_->info(frame).tag = reinterpret_cast<uint64_t>(finder);
  }
  // Of readers that count themselves instead of entering the epoch.
  std::atomic<uint32_t>& reader_count(uint32_t frame) const {
    return reinterpret_cast<ReaderCount*>(count_memory_.data())[frame].count;
  }

 private:
  // A line each, so that readers of different frames do not write to the same one.
  struct alignas(64) ReaderCount {
    std::atomic<uint32_t> count{0};
  };
  // So often Take waits for counted readers to leave.
  static constexpr uint32_t kPatience = 1000;

  // The engine's owner of blocks, told by a search who the parent is where one is asked for.
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

// The runs of a bucket as they lay on disk at one moment, for readers inside the epoch without the
// bucket's lock.
//
// They are published while nothing else belongs to the bucket: no delta, no history, and no state
// in which a lookup must look at more. The writer of the next record hides them before it loads the
// version. So a reader that finds them sees what the bucket held at that moment. That also holds
// for the reader of a view, which was taken before. A merge publishes new ones.
//
// The runs, and this object, are kept until the readers that may have found them have left the
// epoch. So are the frames of blocks and of values that they lead to. Before such a frame is
// evicted, the runs are hidden or its swip is changed. So the evictor sees the reader inside, or
// the reader sees the change.
//
// Immutable, thread-safe.
#ifndef ENGINE_RACE_INDEX_PAGED_RUNS_H_
#define ENGINE_RACE_INDEX_PAGED_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine_race/base/lower_bound.h"
#include "engine_race/index/block_frames.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/index/part_row.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/l1/limbo.h"

namespace engine_race {

class PagedRuns final : public l1::Retirable {
 public:
  // Null unless the row has runs and all of them are paged. May throw std::bad_alloc.
  static std::unique_ptr<PagedRuns> Of(const PartRow& row, const BlockFrames& blocks);

  // The word of `key`; null if the runs do not have it, or if a block that it needs is in no frame.
  // It looks into the window first.
  [[gnu::always_inline]] RefWord* Locate(uint64_t key, const RunWindow& window) const {
    const PagedRun& run = *RunOf(key);
    if (window.block != 0) {
      RefWord* const word = blocks_.WordAt(run, key, window);
      if (word != nullptr) [[likely]] {
        return word;
      }
    }
    return blocks_.Locate(run, key);
  }
  // The first step of Locate: see BlockFrames.
  [[gnu::always_inline]] bool FindFences(uint64_t key, BlockFrames::Place* place) const {
    return blocks_.FindFences(*RunOf(key), key, place);
  }
  size_t memory_bytes() const;

 private:
  explicit PagedRuns(const BlockFrames& blocks) : blocks_(blocks) {}

  // The last run whose first key is at most `key`; the first run if there is none.
  const PagedRun* RunOf(uint64_t key) const {
    if (later_.empty()) [[likely]] {
      return first_;
    }
    const size_t index = UpperRank(first_keys_.data(), first_keys_.size(), key);
    return index == 0 ? first_ : later_[index - 1];
  }

  const BlockFrames& blocks_;
  const PagedRun* first_ = nullptr;
  std::vector<const PagedRun*> later_;
  std::vector<uint64_t> first_keys_;  // of later_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PAGED_RUNS_H_

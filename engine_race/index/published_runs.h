// The runs of a bucket at one moment, flat or paged, for readers inside the epoch without the
// bucket's lock. Taking the lock changes a shared counter twice, which would cost a quarter of a
// lookup.
//
// They are published while nothing else belongs to the bucket: no delta, no history, and no state
// in which a lookup must look at more. The writer of the next record hides them before it loads the
// version. So a reader that finds them sees what the bucket held at that moment. That also holds
// for the reader of a view, which was taken before. The next merge by the keeper, or a sweep of
// history, publishes new ones.
//
// The runs, and this object, are kept until the readers that may have found them have left the
// epoch. So are the frames of blocks and of values that they lead to. Before such a frame is
// evicted, the runs are hidden or its swip is changed. So the evictor sees the reader inside, or
// the reader sees the change.
//
// The functions for flat runs are inline and short. A processor overlaps a limited number of
// instructions, so shorter lookups let more of them wait for memory together. A call that answers
// false or null says nothing; the lookup under the lock decides.
//
// Immutable, thread-safe.
#ifndef ENGINE_RACE_INDEX_PUBLISHED_RUNS_H_
#define ENGINE_RACE_INDEX_PUBLISHED_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/lower_bound.h"
#include "engine_race/index/block_frames.h"
#include "engine_race/index/block_lookup.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/index/part_row.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/run_view.h"
#include "engine_race/index/run_window.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/l1/limbo.h"

namespace engine_race {

class PublishedRuns final : public l1::Retirable {
 public:
  // Of the row of a bucket, with its lock held exclusively. Null if it has no runs to look into.
  // `limbo` takes those that are flat. `blocks` is null only if no run is paged. May throw
  // std::bad_alloc.
  static std::unique_ptr<PublishedRuns> Of(const PartRow& row, const BlockFrames* blocks,
                                           l1::Limbo* limbo);

  // The record of `key` in a flat run. Looks in the window. Without one it looks in the first run,
  // the only one of most buckets, where an evenly spread key would be, and nowhere else. It calls
  // nothing, so that its caller need not save registers.
  [[gnu::always_inline]] bool FindNear(uint64_t key, const RunWindow& window, ValueRef* ref) const {
    if (!window.is_flat()) return Load(first_.flat.LocateNearGuess(key), ref);
    const uint32_t number = window.block - RunWindow::kFlat;
    if (number > later_.size()) [[unlikely]] {
      return false;
    }
    return Load(RunAt(number).flat.LocateInWindow(window.place, key), ref);
  }
  // The record of `key` in any run. Of a paged one it looks into the window, then into frames
  // alone. `lookup` may be null.
  bool Find(uint64_t key, const RunWindow& window, BlockLookup* lookup, ValueRef* ref) const {
    const Run& run = RunAt(NumberOf(key));
    return run.paged == nullptr ? Load(run.flat.Locate(key), ref)
                                : FindPaged(*run.paged, key, window, lookup, ref);
  }

  // The first steps of lookups among many: see RunView and BlockFrames. PrefetchCell gives the flat
  // run that can have the key, and begins its window. Null, and nothing is fetched, if there is
  // none.
  [[gnu::always_inline]] const RunView* PrefetchCell(uint64_t key, CellMap::Position* position,
                                                     RunWindow* window) const {
    const uint32_t number = NumberOf(key);
    const RunView& run = RunAt(number).flat;
    if (!run.PrefetchCell(key, position)) return nullptr;
    window->block = RunWindow::kFlat + number;
    return &run;
  }
  [[gnu::always_inline]] void FindFences(uint64_t key, BlockFrames::Place* place) const {
    const Run& run = RunAt(NumberOf(key));
    if (run.paged != nullptr) blocks_->FindFences(*run.paged, key, place);
  }

  // As BucketIndex::FirstKeys and LastKeys, in a flat run. Also false when the range of keys
  // reaches into another run.
  [[gnu::always_inline]] bool FirstKeys(uint64_t first_key, uint64_t last_key,
                                        std::span<uint64_t> keys, size_t* count) const {
    const RunView& run = RunAt(NumberOf(first_key)).flat;
    size_t rank;
    size_t taken = keys.size();
    if (!run.RankQuickly(first_key, &rank) || run.count() - rank < taken) return false;
    run.CopyKeys(rank, keys);
    while (taken > 0 && keys[taken - 1] > last_key) --taken;
    *count = taken;
    return true;
  }
  [[gnu::always_inline]] bool LastKeys(uint64_t first_key, uint64_t last_key,
                                       std::span<uint64_t> keys, size_t* count) const {
    if (last_key == ~uint64_t{0}) return false;
    const RunView& run = RunAt(NumberOf(last_key + 1)).flat;
    size_t rank;
    if (!run.RankQuickly(last_key + 1, &rank) || rank < keys.size()) return false;
    run.CopyKeys(rank - keys.size(), keys);
    *count = keys.size();
    return keys.empty() || keys[0] >= first_key;
  }
  size_t memory_bytes() const;

 private:
  struct alignas(64) Run {
    RunView flat;  // empty if the run is paged
    const PagedRun* paged = nullptr;
  };

  explicit PublishedRuns(const BlockFrames* blocks) : blocks_(blocks) {}

  // The number of the last run whose first key is at most `key`; of the first run if there is none.
  [[gnu::always_inline]] uint32_t NumberOf(uint64_t key) const {
    // If the first run is flat, no other cache line is needed.
    if (first_.flat.map().Contains(key) || later_.empty()) [[likely]] {
      return 0;
    }
    return static_cast<uint32_t>(UpperRank(first_keys_.data(), first_keys_.size(), key));
  }
  [[gnu::always_inline]] const Run& RunAt(uint32_t number) const {
    return number == 0 ? first_ : later_[number - 1];
  }
  [[gnu::always_inline]] static bool Load(const RefWord* word, ValueRef* ref) {
    if (word == nullptr) [[unlikely]] {
      return false;
    }
    *ref = word->Load();
    return true;
  }
  [[gnu::always_inline]] bool FindPaged(const PagedRun& run, uint64_t key, const RunWindow& window,
                                        BlockLookup* lookup, ValueRef* ref) const {
    // A lookup that a block was read for looks into that block first, and is no hit.
    if (lookup != nullptr && !lookup->is_fresh()) return false;
    const RefWord* word = window.block == 0 ? nullptr : blocks_->WordAt(run, key, window);
    if (word == nullptr) word = blocks_->Locate(run, key);
    if (!Load(word, ref)) return false;
    if (lookup != nullptr) lookup->NoteHit();
    return true;
  }

  const BlockFrames* const blocks_;
  std::vector<Run> later_;
  Run first_;
  std::vector<uint64_t> first_keys_;  // of later_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PUBLISHED_RUNS_H_

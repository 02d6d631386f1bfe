// Lookups without the bucket's lock, in a bucket that still has only the runs that Install or
// Flatten brought. Taking the lock changes a shared counter twice, which would cost a quarter of a
// lookup.
//
// They work until a record is appended to the bucket; a flag says so. The runs are immutable and
// their addresses stay mapped. If a run is merged during a lookup, its memory may be given back and
// read as zeros. The flag is cleared before that, so the lookup sees it cleared and fails.
//
// A run that was merged may also lead to a frame that was evicted since then. The flag was cleared
// before the merge, and the merge came before the eviction. So the evictor sees the reader inside
// the epoch, or the reader sees the flag cleared.
//
// For the reader of a view a set flag also says that no later record belongs to the view. The
// writer clears the flag before it loads the version. The view was taken before its reader loads
// the flag.
//
// The functions are inline and short. A processor overlaps a limited number of instructions, so
// shorter lookups let more of them wait for memory together. A call that answers false says
// nothing; the lookup under the lock decides.
//
// Thread-safe. Refers to the bucket's own flag and runs.
#ifndef ENGINE_RACE_INDEX_UNCHANGED_RUNS_H_
#define ENGINE_RACE_INDEX_UNCHANGED_RUNS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine_race/index/flat_runs.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/sorted_run.h"
#include "engine_race/index/value_ref.h"

namespace engine_race {

class UnchangedRuns {
 public:
  // `first` is a copy of the first run's view, near the flag. `all` is not null while the flag is
  // set.
  [[gnu::always_inline]] UnchangedRuns(const std::atomic<bool>& unchanged, const RunView& first,
                                       const std::unique_ptr<const FlatRuns>& all)
      : unchanged_(unchanged), first_(first), all_(all) {}

  // As BucketIndex::Find and FindHot. They look in the window if there is one, else where an evenly
  // spread key would be, and nowhere else.
  [[gnu::always_inline]] bool Find(uint64_t key, ValueRef* ref,
                                   const RunWindow& window = {}) const {
    return Load(key, window, ref) && ref->leads_to_slot();
  }
  [[gnu::always_inline]] bool FindHot(uint64_t key, ValueRef* ref,
                                      const RunWindow& window = {}) const {
    return Load(key, window, ref) && !ref->tombstone();
  }
  // They search the whole cell of the key.
  bool FindInCell(uint64_t key, ValueRef* ref) const {
    return LoadFromCell(key, ref) && ref->leads_to_slot();
  }
  bool FindHotInCell(uint64_t key, ValueRef* ref) const {
    return LoadFromCell(key, ref) && !ref->tombstone();
  }

  // The steps of a lookup among many: see RunView. PrefetchCell is false when the bucket has
  // changed. *run can have the key; null, and nothing is fetched, when there is none.
  bool PrefetchCell(uint64_t key, const RunView** run, CellMap::Position* position) const {
    if (!IsUnchanged()) return false;
    *run = RunOf(key);
    if (*run != nullptr && !(*run)->PrefetchCell(key, position)) *run = nullptr;
    return true;
  }
  uint32_t PrefetchWindow(const RunView& run, const CellMap::Position& position,
                          RunWindow* window) const {
    return run.PrefetchWindow(position, window, [this] { return IsStillUnchanged(); });
  }

  // As BucketIndex::FirstKeys and LastKeys. Also false when the range of keys reaches into another
  // run.
  [[gnu::always_inline]] bool FirstKeys(uint64_t first_key, uint64_t last_key,
                                        std::span<uint64_t> keys, size_t* count) const {
    if (!IsUnchanged()) return false;
    const RunView* const run = RunOf(first_key);
    if (run == nullptr) return false;
    size_t rank;
    const bool found = run->RankQuickly(first_key, &rank, [this] { return IsStillUnchanged(); });
    size_t taken = keys.size();
    if (!found || rank > run->count() || run->count() - rank < taken) return false;
    run->CopyKeys(rank, keys);
    if (!IsStillUnchanged()) return false;
    while (taken > 0 && keys[taken - 1] > last_key) --taken;
    *count = taken;
    return true;
  }
  [[gnu::always_inline]] bool LastKeys(uint64_t first_key, uint64_t last_key,
                                       std::span<uint64_t> keys, size_t* count) const {
    if (last_key == ~uint64_t{0} || !IsUnchanged()) return false;
    const RunView* const run = RunOf(last_key + 1);
    if (run == nullptr) return false;
    size_t rank;
    const bool found = run->RankQuickly(last_key + 1, &rank, [this] { return IsStillUnchanged(); });
    if (!found || rank < keys.size()) return false;
    run->CopyKeys(rank - keys.size(), keys);
    if (!IsStillUnchanged()) return false;
    *count = keys.size();
    return keys.empty() || keys[0] >= first_key;
  }

 private:
  // The run that `key` belongs to; null when there is none. While the flag is set.
  [[gnu::always_inline]] const RunView* RunOf(uint64_t key) const {
    if (first_.map().Contains(key)) [[likely]] {
      return &first_;
    }
    return all_->LaterRun(key);
  }
  // Load and LoadFromCell load the word of `key`.
  [[gnu::always_inline]] bool Load(uint64_t key, const RunWindow& window, ValueRef* ref) const {
    return LoadBy(ref, [&](RefWord** word) {
      if (window.keys != nullptr) return RunView::LocateIn(window, key, word);
      const RunView* const run = RunOf(key);
      const auto still_valid = [this] { return IsStillUnchanged(); };
      return run != nullptr && run->LocateNearGuess(key, word, still_valid);
    });
  }
  bool LoadFromCell(uint64_t key, ValueRef* ref) const {
    return LoadBy(ref, [&](RefWord** word) {
      const RunView* const run = RunOf(key);
      const auto still_valid = [this] { return IsStillUnchanged(); };
      return run != nullptr && run->LocateInCell(key, word, still_valid);
    });
  }
  template <typename LocateFn>
  [[gnu::always_inline]] bool LoadBy(ValueRef* ref, const LocateFn& locate) const {
    RefWord* word;
    if (!IsUnchanged() || !locate(&word)) return false;
    *ref = word->Load();
    return IsStillUnchanged();
  }

  bool IsUnchanged() const {
    // Sequentially consistent: pairs with the store in BucketIndex::Add. Acquire: later loads stay
    // behind this one.
    return unchanged_.load(std::memory_order_seq_cst);
  }
  // IsUnchanged, after all that has been loaded before the call.
  bool IsStillUnchanged() const {
    LoadFence();
    return IsUnchanged();
  }
  // Keeps later loads behind earlier ones. Takes no instruction on x86, where loads stay in order.
  // ThreadSanitizer does not support the fence and does not need it.
  static void LoadFence() {
#ifdef __SANITIZE_THREAD__
    std::atomic_signal_fence(std::memory_order_acquire);
#else
    // Acquire: pairs with the release in BucketIndex::Add.
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
  }

  const std::atomic<bool>& unchanged_;
  const RunView& first_;
  const std::unique_ptr<const FlatRuns>& all_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_UNCHANGED_RUNS_H_

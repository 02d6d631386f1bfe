// Lookups without the bucket's lock, in a bucket that still has only the run that Install or
// Flatten brought. Taking the lock changes a shared counter twice, which would cost a quarter of a
// lookup.
//
// They work until a record is appended to the bucket; a flag says so. The run is immutable and its
// addresses stay mapped. If the run is merged during a lookup, its memory may be given back and
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
// Thread-safe. Refers to the bucket's own flag and run.
#ifndef ENGINE_RACE_INDEX_UNCHANGED_RUN_H_
#define ENGINE_RACE_INDEX_UNCHANGED_RUN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine_race/index/index.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/sorted_run.h"

namespace engine_race {

class UnchangedRun {
 public:
  [[gnu::always_inline]] UnchangedRun(const std::atomic<bool>& unchanged, const RunView& run)
      : unchanged_(unchanged), run_(run) {}

  // As BucketIndex::Find and FindHot.
  [[gnu::always_inline]] bool Find(uint64_t key, ValueRef* ref) const {
    return Load(key, ref) && ref->leads_to_slot();
  }
  [[gnu::always_inline]] bool FindHot(uint64_t key, ValueRef* ref) const {
    return Load(key, ref) && !ref->tombstone();
  }

  // See RunView. False, and nothing is fetched, unless the run is all that the bucket has.
  bool PrefetchCell(uint64_t key) const {
    if (!IsUnchanged()) return false;
    run_.PrefetchCell(key);
    return true;
  }
  bool PrefetchGuess(uint64_t key) const {
    if (!IsUnchanged()) return false;
    run_.PrefetchGuess(key, [this] { return IsStillUnchanged(); });
    return true;
  }

  // As BucketIndex::FirstKeys and LastKeys. Also false when the range of keys reaches into another
  // bucket.
  [[gnu::always_inline]] bool FirstKeys(uint64_t first_key, uint64_t last_key,
                                        std::span<uint64_t> keys, size_t* count) const {
    if (!IsUnchanged()) return false;
    size_t rank;
    const bool found = run_.RankQuickly(first_key, &rank, [this] { return IsStillUnchanged(); });
    size_t taken = keys.size();
    if (!found || run_.count() - rank < taken) return false;
    run_.CopyKeys(rank, keys);
    if (!IsStillUnchanged()) return false;
    while (taken > 0 && keys[taken - 1] > last_key) --taken;
    *count = taken;
    return true;
  }
  [[gnu::always_inline]] bool LastKeys(uint64_t first_key, uint64_t last_key,
                                       std::span<uint64_t> keys, size_t* count) const {
    if (last_key == ~uint64_t{0} || !IsUnchanged()) return false;
    size_t rank;
    const bool found = run_.RankQuickly(last_key + 1, &rank, [this] { return IsStillUnchanged(); });
    if (!found || rank < keys.size()) return false;
    run_.CopyKeys(rank - keys.size(), keys);
    if (!IsStillUnchanged()) return false;
    *count = keys.size();
    return keys.empty() || keys[0] >= first_key;
  }

 private:
  // Loads the word of `key`.
  [[gnu::always_inline]] bool Load(uint64_t key, ValueRef* ref) const {
    if (!IsUnchanged()) return false;
    RefWord* word;
    if (!run_.LocateNearGuess(key, &word, [this] { return IsStillUnchanged(); })) return false;
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
  const RunView& run_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_UNCHANGED_RUN_H_

// Lookups in a bucket that still is the one run that Install brought, without the bucket's lock,
// whose two atomic changes of a shared counter would cost a quarter of a lookup.
//
// They work as long as nothing has been appended to the bucket. The run is immutable and its
// addresses stay mapped, so the worst that a reader can meet is a run that was merged and given
// back meanwhile, which reads as zeros. The flag, cleared before that, tells. What a run says that
// was merged meanwhile may also be a frame that was evicted long ago. The flag tells that too: it
// was cleared before the merge and thus before the eviction, and either the evictor sees the caller
// inside the epoch or the caller sees the flag cleared.
//
// For a view's reader a flag that is set also says that whatever is appended later is none of the
// view's: the writer clears the flag before it looks at the epoch, and the view was taken before
// the flag is looked at here.
//
// Inline and short, because what a processor has under way at once is counted in instructions: the
// fewer a lookup has, the more lookups wait for memory together. Every call answers false where
// the locked one has to tell. Thread-safe; a view of the bucket's own flag and run.
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

  // As BucketIndex::Find, and FindHot.
  [[gnu::always_inline]] bool Find(uint64_t key, ValueRef* ref) const {
    return Load(key, ref) && ref->leads_to_slot();
  }
  [[gnu::always_inline]] bool FindHot(uint64_t key, ValueRef* ref) const {
    return Load(key, ref) && !ref->tombstone();
  }

  // As BucketIndex::FirstKeys and LastKeys; false also when the keys that are asked for reach into
  // another bucket.
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
  // What the word of `key` says.
  [[gnu::always_inline]] bool Load(uint64_t key, ValueRef* ref) const {
    if (!IsUnchanged()) return false;
    RefWord* word;
    if (!run_.LocateNearGuess(key, &word, [this] { return IsStillUnchanged(); })) return false;
    *ref = word->Load();
    return IsStillUnchanged();
  }

  bool IsUnchanged() const {
    // Seq_cst: pairs with the store in BucketIndex::Add; acquire: keeps the loads behind it there.
    return unchanged_.load(std::memory_order_seq_cst);
  }
  // Behind what has been loaded.
  bool IsStillUnchanged() const {
    LoadFence();
    return IsUnchanged();
  }
  // Keeps later loads behind earlier ones. No instruction on x86, where loads stay in order; TSan
  // does not know the fence, nor does it need it.
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

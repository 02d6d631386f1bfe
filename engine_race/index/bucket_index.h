// The index of one bucket: a row of parts in key order, and the life of a bucket from its cut on.
//
// States: empty until Expect(); then records are only noted, until Install() brings the parts that
// were built from the cut and adds what was noted meanwhile; from then on records go to the delta
// of their part. There is always one mutator: Prepare and OnAppend come under the log's lock of the
// bucket, and Install excludes them by the state it changes under this bucket's own lock.
//
// Records are stamped with the epoch that is found under this bucket's lock, so that a view of the
// store shows the same cut of the bucket each time; see views.h.
//
// A bucket is unread while its key log cannot be read: every lookup answers kIOError until a later
// build has read it and Admit has said so.
//
// A damaged bucket holds only the records that are provably the newest of their keys, tombstones
// included; whatever is not found there may have been lost.
//
// Thread safety: const calls from any thread, beside one mutator and one sweep of the history.
#ifndef ENGINE_RACE_INDEX_BUCKET_INDEX_H_
#define ENGINE_RACE_INDEX_BUCKET_INDEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/index.h"
#include "engine_race/index/part.h"
#include "engine_race/index/pinned_buckets.h"
#include "engine_race/index/read_write_lock.h"
#include "engine_race/index/sorted_run.h"

namespace engine_race {

class alignas(64) BucketIndex {
 public:
  // Parts of more keys are split; what they hold for views counts as keys. A merge or a step of a
  // sweep copies no more records than that, what is new, and one for each live view.
  static constexpr uint32_t kSplitKeys = uint32_t{128} << 10;
  using Row = std::vector<std::unique_ptr<Part>>;

  // Before anything else. Smaller parts are for tests.
  void set_split_keys(uint32_t split_keys) { split_keys_ = split_keys; }
  // Without it nothing is kept for views, nor counted. Outlives the bucket.
  void set_pinned(PinnedBuckets* pinned) {
    pinned_ = pinned;
    pinned_link_.bucket = this;
  }

  // See Index::SetFrameSlots.
  void set_frame_slots(const std::atomic<uint32_t>* slots) { frames_.set_slots(slots); }

  // From now on records come in by Prepare and OnAppend. Before CutBucket.
  void Expect() noexcept;
  // Takes everything back, for another build. No record may come in any more. An unread bucket
  // stays unread.
  void Forget();
  // The bucket's counts are damaged: everything is kCorruption.
  void MarkUnreadable() noexcept { damaged_ = true; }
  // Before readers know the index: the bucket is unread.
  void MarkUnread() noexcept { unread_ = true; }
  // After Install: the bucket is unread no longer. What was appended while it was is not stamped.
  void Admit() noexcept;
  // Hands over `parts`, ascending and disjoint, none empty, as what the cut held. `damaged`: see
  // above. kOutOfMemory.
  Status Install(Row parts, bool damaged);

  // kOk, kNotFound, kCorruption or, in an unread bucket, kIOError.
  Code Find(uint64_t key, ValueRef* ref) const;
  // The same of what a view of `epoch` shows.
  Code FindAt(uint64_t key, uint64_t epoch, ValueRef* ref) const;

  // Find for the usual case: false means that Find has to tell. Without the lock, whose two atomic
  // changes of a shared counter would cost a quarter of a lookup. It works as long as nothing has
  // been appended to the bucket: the run that Install brought is immutable and its addresses stay
  // mapped, so the worst that a reader can meet is a run that was merged and given back meanwhile,
  // which reads as zeros; the flag, cleared before that, tells. Inline and short, because what a
  // processor has under way at once is counted in instructions: the fewer a lookup has, the more
  // lookups wait for memory together.
  [[gnu::always_inline]] bool FindQuickly(uint64_t key, ValueRef* ref) const;

  // Frames: see Index.
  Code FindHot(uint64_t key, ValueRef* ref) const;
  Code FindHotAt(uint64_t key, uint64_t epoch, ValueRef* ref) const;
  // As FindQuickly. What a run says that was merged meanwhile may be a frame that was evicted long
  // ago: the flag tells that too, for it was cleared before the merge and thus before the eviction,
  // and either the evictor sees the caller inside the epoch or the caller sees the flag cleared.
  [[gnu::always_inline]] bool FindHotQuickly(uint64_t key, ValueRef* ref) const;
  bool Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept;
  Index::Unswizzled Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept;
  bool Cool(uint64_t key, uint32_t frame) noexcept { return Mark(key, frame, true); }
  bool Heat(uint64_t key, uint32_t frame) noexcept { return Mark(key, frame, false); }

  // See Index.
  Code Collect(uint64_t first_key, uint64_t last_key, size_t max_entries,
               std::vector<IndexEntry>* entries, bool* complete,
               uint64_t epoch = kLatestEpoch) const;

  // The first, or the last, keys that a view of `epoch` shows in [first_key, last_key], ascending:
  // *count of them, fewer than there is room for when the bucket has no others, at the beginning of
  // `keys` or, the last, at its end. kCorruption for a damaged bucket.
  Code FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch, std::span<uint64_t> keys,
                 size_t* count) const;
  Code LastKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch, std::span<uint64_t> keys,
                size_t* count) const;
  // The same for the usual case, at any epoch: see FindQuickly. False also when the keys that are
  // asked for reach into another bucket.
  [[gnu::always_inline]] bool FirstKeysQuickly(uint64_t first_key, uint64_t last_key,
                                               std::span<uint64_t> keys, size_t* count) const;
  [[gnu::always_inline]] bool LastKeysQuickly(uint64_t first_key, uint64_t last_key,
                                              std::span<uint64_t> keys, size_t* count) const;
  uint64_t EstimateCount(uint64_t first_key, uint64_t last_key) const;
  // By a walk over the parts.
  uint64_t memory_bytes() const;

  // AppendListener's.
  Status Prepare();
  void OnAppend(const KeyRecord& record) noexcept;

  // One step of a sweep: throws away what no live view needs of the history of the part that *key
  // belongs to, where that pays, and moves *key on to the next part. `live` must hold all epochs
  // from some moment before the call on: see ViewRegistry::LiveFromNowOn. No lock is held while
  // records are looked at.
  struct SweptPart {
    bool has_next = false;
    bool is_left = false;     // there is history left in the part
    size_t record_count = 0;  // that were looked at
  };
  SweptPart SweepPart(uint64_t* key, const LiveEpochs& live) noexcept;

 private:
  // Keeps later loads behind earlier ones. No instruction on x86, where loads stay in order; TSan
  // does not know the fence, nor does it need it.
  static void LoadFence() {
#ifdef __SANITIZE_THREAD__
    std::atomic_signal_fence(std::memory_order_acquire);
#else
    // Acquire: pairs with the release in Add.
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
  }

  enum class State : uint8_t { kEmpty, kExpecting, kInstalled };
  static constexpr uint32_t kNoPart = ~uint32_t{0};
  // What a delta begins with and grows by, until its part's limit makes it merge.
  static constexpr uint32_t kFirstDelta = 16;
  static constexpr uint32_t kDeltaGrowth = 4;
  // This part of a full delta, dropped because no view shows it, saves growing or merging it.
  static constexpr uint32_t kDroppedFraction = 4;

  size_t PartOf(uint64_t key) const;
  // What the word in the run that Install brought says; false when that is of no use.
  [[gnu::always_inline]] bool LoadQuickly(uint64_t key, ValueRef* ref) const;
  bool Mark(uint64_t key, uint32_t frame, bool cooling) noexcept;
  // Makes room for one more record in every part.
  Status MakeRoom();
  bool DropUnseen(size_t part);
  Status GrowDelta(size_t part, uint32_t limit);
  // The mutator's: parts_[part], and its history as it is now.
  MergeSource SourceOf(size_t part) const;
  size_t NeighbourOf(size_t part, const MergeSource& source) const;
  Status Merge(size_t part);
  // Puts the parts of `replacement` in place of `count` parts from `part` on, under the lock.
  Status Replace(size_t part, size_t count, PartReplacement replacement);
  // The record goes to the delta of its part, where MakeRoom has made room.
  void Add(uint64_t key, ValueRef ref) noexcept;
  // Takes the lock; the old row is given back in the arguments.
  void SwapRow(Row* parts, std::vector<uint64_t>* bounds) noexcept;
  Status ReserveNoted();
  void FreeNoted() noexcept;
  void CountBytes(uint64_t now, uint64_t before) noexcept {
    if (pinned_ != nullptr) pinned_->part_bytes().Change(now, before);
  }
  // What a row takes beside the histories of its parts.
  static uint64_t RowBytes(const Row& parts, const std::vector<uint64_t>& bounds) noexcept;

  // Whether the bucket still is what Install brought. For a view's reader that also says that
  // whatever is appended later is none of the view's: the writer clears the flag before it looks at
  // the epoch, and the view was taken before the flag is looked at here.
  bool IsUnchanged() const {
    // Seq_cst: pairs with the store in Add; acquire: keeps the loads behind it there.
    return unchanged_.load(std::memory_order_seq_cst);
  }

  Code CodeOf(bool found, ValueRef ref) const {
    if (found && !ref.none()) return ref.tombstone() ? Code::kNotFound : Code::kOk;
    return damaged_ ? Code::kCorruption : Code::kNotFound;
  }

  // The first cache line is all that the usual lookup needs of the bucket.

  // The bucket still is the one run that Install brought. Never true again once it was false.
  std::atomic<bool> unchanged_{false};
  // Both under the lock once readers know the index.
  bool damaged_ = false;
  bool unread_ = false;
  mutable ReadWriteLock lock_;
  // Set by Install for good.
  RunView first_run_;
  // Keeps the addresses of first_run_ readable, whatever became of the run.
  std::shared_ptr<const Region> first_run_mapping_;

  // Stored under the lock; Prepare looks at it without.
  std::atomic<State> state_{State::kEmpty};
  // Prepare has made room in noted_ for a record that may come after Install.
  bool promised_ = false;
  uint32_t split_keys_ = kSplitKeys;
  // bounds_[i] is the smallest key that belongs to parts_[i]; bounds_[0] counts as zero.
  std::vector<uint64_t> bounds_;
  Row parts_;
  // What came in between Expect and Install.
  std::vector<IndexEntry> noted_;
  // An empty delta for the next part that gets its first new record.
  Delta spare_;
  FrameSlots frames_;
  // The part whose delta the last record filled.
  uint32_t full_part_ = kNoPart;
  PinnedBuckets* pinned_ = nullptr;
  PinnedLink pinned_link_;
};

// A power of two, so that a lookup finds its bucket with a shift.
static_assert(sizeof(BucketIndex) == 256);

inline bool BucketIndex::LoadQuickly(uint64_t key, ValueRef* ref) const {
  if (!IsUnchanged()) return false;
  RefWord* word;
  const bool found = first_run_.LocateNearGuess(key, &word, [this] {
    LoadFence();
    return IsUnchanged();
  });
  if (!found) return false;
  *ref = word->Load();
  LoadFence();
  return IsUnchanged();
}

inline bool BucketIndex::FindQuickly(uint64_t key, ValueRef* ref) const {
  return LoadQuickly(key, ref) && ref->leads_to_slot();
}

inline bool BucketIndex::FindHotQuickly(uint64_t key, ValueRef* ref) const {
  return LoadQuickly(key, ref) && !ref->tombstone();
}

inline bool BucketIndex::FirstKeysQuickly(uint64_t first_key, uint64_t last_key,
                                          std::span<uint64_t> keys, size_t* count) const {
  if (!IsUnchanged()) return false;
  size_t rank;
  const bool found = first_run_.RankQuickly(first_key, &rank, [this] {
    LoadFence();
    return IsUnchanged();
  });
  size_t taken = keys.size();
  if (!found || first_run_.count() - rank < taken) return false;
  first_run_.CopyKeys(rank, keys);
  LoadFence();
  if (!IsUnchanged()) return false;
  while (taken > 0 && keys[taken - 1] > last_key) --taken;
  *count = taken;
  return true;
}

inline bool BucketIndex::LastKeysQuickly(uint64_t first_key, uint64_t last_key,
                                         std::span<uint64_t> keys, size_t* count) const {
  if (last_key == ~uint64_t{0} || !IsUnchanged()) return false;
  size_t rank;
  const bool found = first_run_.RankQuickly(last_key + 1, &rank, [this] {
    LoadFence();
    return IsUnchanged();
  });
  if (!found || rank < keys.size()) return false;
  first_run_.CopyKeys(rank - keys.size(), keys);
  LoadFence();
  if (!IsUnchanged()) return false;
  *count = keys.size();
  return keys.empty() || keys[0] >= first_key;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_INDEX_H_

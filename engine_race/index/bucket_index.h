// The index of one bucket: a row of parts in key order, from the cut of the bucket on.
//
// States: the index is empty until Expect. After it the index only notes the records that are
// appended. Install brings the parts that were built from the cut and adds the noted records. From
// then on each record goes to the delta of its part.
//
// There is one mutator at a time. Prepare and OnAppend are called under the log's lock of the
// bucket. Install excludes them by the state, which it changes under this bucket's own lock.
//
// A bucket is unread while its key log cannot be read, and while it waits for its first attempt.
// Every lookup answers kIOError until Admit is called.
// A damaged bucket holds only the records that are provably the newest of their keys, tombstones
// included. Any other key may have been lost.
//
// Readers take the bucket's lock, except while runs are published: see PublishedRuns. Under the
// lock they read a PartRow; BucketGrowth adds records to it.
//
// Thread safety: const calls from any thread, beside one mutator and one sweep of the history.
#ifndef ENGINE_RACE_INDEX_BUCKET_INDEX_H_
#define ENGINE_RACE_INDEX_BUCKET_INDEX_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/index/block_lookup.h"
#include "engine_race/index/bucket_growth.h"
#include "engine_race/index/bucket_shared.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/index.h"
#include "engine_race/index/paging.h"
#include "engine_race/index/part_row.h"
#include "engine_race/index/published_runs.h"
#include "engine_race/index/read_write_lock.h"
#include "engine_race/index/run_slices.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/extent_image.h"

namespace engine_race {

// Records that came after the ones in the parts of a bucket, in order.
struct BucketTail {
  std::span<const IndexEntry> records;
  // They, and those that came since Expect, came after this moment.
  BucketMoment since;
  // None of their rows, and of those of the parts, was born later.
  uint64_t births = 0;
};

class alignas(64) BucketIndex {
 public:
  BucketIndex() = default;
  BucketIndex(const BucketIndex&) = delete;
  BucketIndex& operator=(const BucketIndex&) = delete;
  // No reader is inside.
  ~BucketIndex() { delete published_.load(std::memory_order_relaxed); }

  static constexpr uint32_t kSplitKeys = BucketGrowth::kSplitKeys;
  using Row = PartRow::Parts;

  // To be called before anything else. For tests.
  void set_split_keys(uint32_t split_keys) { growth_.set_split_keys(split_keys); }
  // Without it the bucket keeps nothing for views, publishes no runs, and counts no memory. It must
  // outlive the bucket.
  void set_shared(BucketShared* shared) {
    shared_ = shared;
    sweep_link_.bucket = this;
  }
  // See Index::SetFrameSlots.
  void set_frame_slots(std::atomic<uint32_t>* slots) { frames_.set_slots(slots); }

  // From now on records come in by Prepare and OnAppend. To be called before CutBucket.
  void Expect() noexcept;
  // Empties the index for another build. No record may come in any more. Unread stays unread.
  void Forget();
  // Says that the bucket's counts are damaged: every lookup answers kCorruption.
  void MarkUnreadable() noexcept {
    damaged_ = true;
    NoteHeld();
  }
  // Says that the bucket is unread, and that views may be older than the attempt that will read it.
  // With the lock held exclusively once readers know the index.
  void MarkUnread() noexcept {
    may_be_hidden_ = true;
    MarkWaiting();
  }
  // Says that the bucket is unread until its first attempt. To be called before readers know the
  // index.
  void MarkWaiting() noexcept {
    unread_ = true;
    NoteHeld();
  }
  // Says that the first attempt has failed: views may be older than the attempt that succeeds.
  void NoteFailedAttempt() noexcept {
    const std::lock_guard lock(lock_);
    may_be_hidden_ = true;
  }
  // Ends the unread state, after Install. Records that were appended before have no stamps.
  void Admit() noexcept;
  // Takes over parts that were built or restored: ascending and disjoint, none of them empty.
  // `damaged`: see the top of this file. No freed slot is used again until it ends. kOutOfMemory.
  Status Install(Row parts, bool damaged, const BucketTail& tail = {});

  // The runs that readers use without the lock; null while there are none. From inside the epoch.
  [[gnu::always_inline]] const PublishedRuns* published() const {
    // Sequentially consistent: pairs with HidePublished. After the entry into the epoch: a thread
    // that has hidden the runs sees this reader inside, or this reader sees them hidden. Also
    // acquire: pairs with the store in TryPublish.
    return published_.load(std::memory_order_seq_cst);
  }
  // Answers FindHot from the published runs, and Find if *ref leads to a slot. False says nothing.
  // From inside the epoch.
  bool FindPublished(uint64_t key, ValueRef* ref, BlockLookup* lookup,
                     const RunWindow& window = {}) const {
    const PublishedRuns* const runs = published();
    return runs != nullptr && runs->Find(key, window, lookup, ref);
  }
  // Makes readers take the lock. With the lock held exclusively.
  void Hide() noexcept {
    // Relaxed: it changes under the lock.
    if (published_.load(std::memory_order_relaxed) != nullptr) HidePublished();
  }
  // Has walks skip the bucket if no view has a record here. With the lock held exclusively.
  void NoteIfEmpty() noexcept;
  // Two steps under the lock, for flat runs that are not published: see RunView. They give no
  // window, because lookups under the lock use none.
  void PrefetchCell(uint64_t key) const;
  void PrefetchWindow(uint64_t key) const;

  // The newest record of `key`, or the one that a view of `version` shows. kOk, kNotFound,
  // kCorruption or, in an unread bucket, kIOError. kIncomplete: `lookup` wants a block. Without a
  // lookup a record is found only if its block lies in memory.
  Code Find(uint64_t key, ValueRef* ref, BlockLookup* lookup = nullptr,
            uint64_t version = kLatestVersion) const;
  // For frames; see Index.
  Code FindHot(uint64_t key, ValueRef* ref, BlockLookup* lookup = nullptr,
               const RunWindow& window = {}, uint64_t version = kLatestVersion) const;
  bool Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept;
  Index::Unswizzled Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept;
  bool Cool(uint64_t key, uint32_t frame) noexcept { return Mark(key, frame, true); }
  bool Heat(uint64_t key, uint32_t frame) noexcept { return Mark(key, frame, false); }

  // See Index. kIncomplete: slices->Load comes first. Only a bucket without paged parts can do
  // without slices.
  Code Collect(uint64_t first_key, uint64_t last_key, size_t max_entries,
               std::vector<IndexEntry>* entries, bool* complete, uint64_t version = kLatestVersion,
               RunSlices* slices = nullptr) const;
  // FirstKeys gives the lowest keys that a view of `version` shows in [first_key, last_key], at the
  // beginning of `keys`. LastKeys gives the highest ones, at the end of `keys`. Both are ascending.
  // *count is how many they found; fewer than keys.size() only when there are no more. kCorruption
  // for a damaged bucket.
  Code FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version, std::span<uint64_t> keys,
                 size_t* count, RunSlices* slices = nullptr) const;
  Code LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version, std::span<uint64_t> keys,
                size_t* count, RunSlices* slices = nullptr) const;
  uint64_t EstimateCount(uint64_t first_key, uint64_t last_key) const;
  // Measured by a walk over the parts.
  uint64_t memory_bytes() const;

  // The calls of AppendListener.
  Status Prepare();
  // May throw std::bad_alloc, and has refused the batch then.
  Status PrepareMany(uint32_t count, AppendListener::KeyFn key_of);
  // `moved`: the newest record of its key lies in another slot now, and keeps its frame. `before`:
  // a moment before the record came, or before the row that it was moved to was born.
  void OnAppend(const KeyRecord& record, bool moved = false,
                const BucketMoment& before = {}) noexcept;

  // One step of a sweep: drops the undo records that no live view needs from the part that *key
  // belongs to, where that pays. Then moves *key to the next part. `live` must hold all versions
  // from a moment before the call on: see ViewRegistry::LiveFromNowOn.
  struct SweptPart {
    bool has_next = false;
    bool is_left = false;     // the part still has history
    size_t record_count = 0;  // looked at in this step
  };
  SweptPart SweepPart(uint64_t* key, const LiveVersions& live) noexcept;

  // Paging. A thread that moves runs between memory and disk claims the bucket first. Until it
  // releases it, writers add records to deltas and leave the runs alone.

  // Both are called under the log's lock of the bucket. Claim is false when the bucket is claimed,
  // or has no runs of its own now.
  bool Claim() noexcept;
  // Claim of a bucket in any state, which is to be dropped. False if it is claimed.
  bool ClaimAny() noexcept { return !claimed_.exchange(true, std::memory_order_relaxed); }
  void Release() noexcept;
  // The calls below need the bucket claimed. A failure leaves the bucket as it was.

  // Writes runs that are not on disk to extents. With `pages_out`, those that lie flat become
  // paged.
  Status WriteRuns(l1::ExtentImage* image, bool pages_out);
  // Makes paged runs flat.
  Status Flatten(SlabAllocator* slabs);
  // Runs the given function under the log's lock of the bucket.
  using LockedFn = FunctionRef<void(FunctionRef<void()>)>;
  // Merges the deltas of the paged parts that have many records, have at least `min_records`, or
  // are crossed, and writes new extents.
  Status MergePaged(uint32_t min_records, l1::ExtentImage* image, LockedFn locked);
  // Merges the deltas of the flat parts, each under the log's lock of the bucket.
  Status MergeFlat(bool only_crossed, LockedFn locked);
  // Merges the delta of one paged part of a bucket that is not claimed. For a writer, which holds
  // the log's lock of the bucket, or for Install, beside which no other thread moves runs.
  Status MergeOne(size_t index);
  // Whether Install has ended. Relaxed: a hint.
  bool is_installed() const { return state_.load(std::memory_order_relaxed) == State::kInstalled; }
  // Whether its runs may leave memory. Damaged buckets keep tombstones, which extents do not have.
  // See PagingFaults for those that rest.
  bool may_be_paged() const { return !damaged_ && !rests_; }
  bool rests() const { return rests_; }
  // Ends the rest of a bucket. False: not now. Under the log's lock of the bucket.
  bool EndRest() noexcept;
  // The last moment after which all records of the deltas came. `now` is the present one, which is
  // known under the log's lock of the bucket.
  BucketMoment DeltasSince(const BucketMoment& now) const;
  // Describes the bucket for a root. False unless every run lies in an extent. *since is
  // DeltasSince. Under the log's lock.
  bool Describe(const BucketMoment& now, std::vector<format::IndexExtent>* extents,
                BucketMoment* since) const;
  // The bytes that MergePaged would write for all parts.
  uint64_t MergedBytes() const;
  // The bytes that WriteRuns would write.
  uint64_t UnwrittenBytes() const;
  // Whether the last extent of the bucket that was read whole could not be read.
  bool is_extent_lost() const { return extent_lost_.load(std::memory_order_relaxed); }
  // Makes the bucket unread, because an extent cannot be read, or the log detaches the index.
  // Records may still come in.
  void HideLost() noexcept;
  bool is_unread() const {
    const std::shared_lock lock(lock_);
    return unread_;
  }
  // Drops everything. After HideLost, when no record comes in any more. `rests`: see PagingFaults.
  void Lose(bool rests) noexcept;

  // Calls visit(run) for the paged runs with keys of [first_key, last_key] that frames do not hold
  // whole. In order and under the lock, until it answers false. False then.
  bool ForEachCold(uint64_t first_key, uint64_t last_key,
                   FunctionRef<bool(const PagedRun&)> visit) const;
  // Whether a run lies in that extent alone.
  bool HasExtent(const l1::ExtentId& extent) const;
  // Makes a frame with a block of that extent reachable. Under the mutex of the frames' pool.
  bool SwizzleBlock(uint64_t key, const l1::ExtentId& extent, uint32_t block,
                    uint32_t frame) noexcept;
  // Counts a block of the run of `key` that was in no frame. True once in a few times: the run is
  // worth being made flat.
  bool CountsToFlatten(uint64_t key) const;

 private:
  enum class State : uint8_t { kEmpty, kExpecting, kInstalled };

  using EpochGuard = std::optional<l1::EpochManager::Guard>;

  Paging* paging() const { return shared_ == nullptr ? nullptr : shared_->paging(); }
  // Says that walks must look at the bucket: before its first record is stamped, and before a walk
  // can fail here. With the lock held exclusively once readers know the index.
  void NoteHeld() noexcept;
  BlockAccess Access(BlockLookup* lookup) const {
    return {paging() == nullptr ? nullptr : &paging()->blocks(), lookup};
  }
  // Enters the epoch, before the lock is taken, as readers of hot values do.
  void EnterEpoch(EpochGuard* guard) const;
  // Takes the lock, and finds the record of `key` that a view of `version` shows, by read(word).
  template <typename ReadFn>
  Code FindUnderLock(uint64_t key, uint64_t version, const ReadFn& read, BlockLookup* lookup,
                     ValueRef* ref) const;
  template <typename WalkFn>
  Code WalkKeys(uint64_t first_key, uint64_t last_key, uint64_t version, RunSlices* slices,
                const WalkFn& walk) const;
  Code CodeOf(bool found, ValueRef ref, const BlockLookup* lookup) const {
    return !found && lookup != nullptr && lookup->is_wanting() ? Code::kIncomplete
                                                               : CodeOf(found, ref);
  }
  Status AddAll(std::span<const IndexEntry> entries, const BucketMoment& since);
  // Lets readers use the runs without the lock, if nothing else belongs to the bucket. For any
  // thread.
  void TryPublish() noexcept;
  // Whether only runs belong to the bucket, and no flag says that lookups must look at more. With
  // the lock.
  bool HasOnlyRuns() const;
  bool IsEmpty() const;  // of records that a view may show; with the lock
  void HidePublished() noexcept;
  void PageOut(Part* part) noexcept;
  Status ReadExtent(const Part& part, SlabAllocator* slabs, SortedRun* run);
  Status MergePart(size_t index, l1::ExtentImage* image, LockedFn locked);
  Status ReplaceMerged(size_t index, PartReplacement replacement, const Delta& taken,
                       PartRow* replaced);
  // The run of the part that `key` belongs to, if it is paged. With the lock.
  const PagedRun* PagedRunOf(uint64_t key) const;
  BucketMoment DeltasSinceLocked(const BucketMoment& now) const;  // with the lock
  bool Mark(uint64_t key, uint32_t frame, bool cooling) noexcept;
  void Add(uint64_t key, ValueRef ref, bool moved, const BucketMoment& before) noexcept;
  // With the lock.
  void NoteBirths(uint64_t births) noexcept {
    births_.store(std::max(births_.load(std::memory_order_relaxed), births),
                  std::memory_order_relaxed);
  }
  // With the lock held exclusively. TakeFrame makes the newest record of `key` lead to its slot if
  // it is in a frame; *hot leads there. GiveFrame makes its newer record `ref`, of the same value,
  // lead to that frame.
  bool TakeFrame(uint64_t key, ValueRef* hot) noexcept;
  void GiveFrame(uint64_t key, ValueRef ref, ValueRef hot) noexcept;
  // Exchanges the row under the lock and gives the old one back in *row.
  void SwapRow(PartRow* row) noexcept;
  Status ReserveNoted(uint32_t count);
  void FreeNoted() noexcept;
  BucketGrowth::Bucket ForGrowth() noexcept;
  Code CodeOf(bool found, ValueRef ref) const;

  // A lookup usually needs only the first cache line of the bucket.
  // Owned. Null unless readers may use the runs without the lock. Changes under the lock.
  std::atomic<PublishedRuns*> published_{nullptr};
  // All three change under the lock once readers know the index.
  bool damaged_ = false;
  bool unread_ = false;
  // Views may be older than the attempt that read the bucket: see UnreadBuckets::IsHidden.
  bool may_be_hidden_ = false;
  mutable ReadWriteLock lock_;
  std::atomic<State> state_{State::kEmpty};  // stored under the lock; Prepare looks without
  // Changed under the log's lock of the bucket. Relaxed: beside a writer of another process a
  // thread may claim the bucket to drop it while another one has begun to read it again.
  std::atomic<bool> claimed_{false};
  std::atomic<bool> extent_lost_{false};  // relaxed: a hint
  // Its runs stay in memory for a while. Changes under the lock, in Lose and EndRest.
  bool rests_ = false;
  // The records that noted_ has room for, and that may come after Install.
  uint32_t promised_count_ = 0;
  PartRow row_;
  // No record that the index has lies in a row that was born later. Changes under the lock.
  // Relaxed: who looks without it needs a value that no later record has raised.
  std::atomic<uint64_t> births_{0};
  std::vector<IndexEntry> noted_;  // records between Expect and Install
  BucketGrowth growth_;
  FrameSlots frames_;
  BucketShared* shared_ = nullptr;
  SweepLink sweep_link_;
};

// Three times a power of two: a lookup finds its bucket by shifts and an addition.
static_assert(sizeof(BucketIndex) == 192);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_INDEX_H_

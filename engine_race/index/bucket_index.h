// The index of one bucket: a row of parts in key order, and the life of a bucket from its cut on.
//
// States: empty until Expect(); then records are only noted, until Install() brings the parts that
// were built from the cut and adds what was noted meanwhile; from then on records go to the delta
// of their part. There is always one mutator: Prepare and OnAppend come under the log's lock of the
// bucket, and Install excludes them by the state it changes under this bucket's own lock.
//
// A bucket is unread while its key log cannot be read: every lookup answers kIOError until a later
// build has read it and Admit has said so.
//
// A damaged bucket holds only the records that are provably the newest of their keys, tombstones
// included; whatever is not found there may have been lost.
//
// Readers take the bucket's lock, unless nothing has been appended yet: see UnchangedRun. PartRow
// is what they read, BucketGrowth how it takes new records.
//
// Thread safety: const calls from any thread, beside one mutator and one sweep of the history.
#ifndef ENGINE_RACE_INDEX_BUCKET_INDEX_H_
#define ENGINE_RACE_INDEX_BUCKET_INDEX_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/bucket_growth.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/index.h"
#include "engine_race/index/part_row.h"
#include "engine_race/index/pinned_buckets.h"
#include "engine_race/index/read_write_lock.h"
#include "engine_race/index/unchanged_run.h"

namespace engine_race {

class alignas(64) BucketIndex {
 public:
  // Parts of more keys are split; what they hold for views counts as keys. A merge or a step of a
  // sweep copies no more records than that, what is new, and one for each live view.
  static constexpr uint32_t kSplitKeys = uint32_t{128} << 10;
  using Row = PartRow::Parts;

  // Before anything else. For tests.
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

  // Answers the lookups below in the usual case.
  [[gnu::always_inline]] UnchangedRun unchanged() const { return {unchanged_, first_run_}; }
  // kOk, kNotFound, kCorruption or, in an unread bucket, kIOError.
  Code Find(uint64_t key, ValueRef* ref) const;
  // The same of what a view of `epoch` shows.
  Code FindAt(uint64_t key, uint64_t epoch, ValueRef* ref) const;
  // Frames: see Index.
  Code FindHot(uint64_t key, ValueRef* ref) const;
  Code FindHotAt(uint64_t key, uint64_t epoch, ValueRef* ref) const;
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
  uint64_t EstimateCount(uint64_t first_key, uint64_t last_key) const;
  // By a walk over the parts.
  uint64_t memory_bytes() const;

  // AppendListener's.
  Status Prepare();
  void OnAppend(const KeyRecord& record) noexcept;

  // One step of a sweep: throws away what no live view needs of the history of the part that *key
  // belongs to, where that pays, and moves *key on to the next part. `live` must hold all epochs
  // from some moment before the call on: see ViewRegistry::LiveFromNowOn.
  struct SweptPart {
    bool has_next = false;
    bool is_left = false;     // there is history left in the part
    size_t record_count = 0;  // that were looked at
  };
  SweptPart SweepPart(uint64_t* key, const LiveEpochs& live) noexcept;

 private:
  enum class State : uint8_t { kEmpty, kExpecting, kInstalled };

  bool Mark(uint64_t key, uint32_t frame, bool cooling) noexcept;
  void Add(uint64_t key, ValueRef ref) noexcept;
  // Takes the lock; the old row is given back in *row.
  void SwapRow(PartRow* row) noexcept;
  Status ReserveNoted();
  void FreeNoted() noexcept;
  BucketGrowth::Bucket ForGrowth() noexcept;
  Code CodeOf(bool found, ValueRef ref) const;

  // The first cache line is all that the usual lookup needs of the bucket.
  std::atomic<bool> unchanged_{false};  // since Install; never true again once it was false
  // Both under the lock once readers know the index.
  bool damaged_ = false;
  bool unread_ = false;
  mutable ReadWriteLock lock_;
  RunView first_run_;                                // set by Install for good
  std::shared_ptr<const Region> first_run_mapping_;  // keeps its addresses readable

  std::atomic<State> state_{State::kEmpty};  // stored under the lock; Prepare looks without
  bool promised_ = false;  // room in noted_ for a record that may come after Install
  uint32_t split_keys_ = kSplitKeys;
  PartRow row_;
  std::vector<IndexEntry> noted_;  // what came in between Expect and Install
  BucketGrowth growth_;
  FrameSlots frames_;
  PinnedBuckets* pinned_ = nullptr;
  PinnedLink pinned_link_;
};

// A power of two, so that a lookup finds its bucket with a shift.
static_assert(sizeof(BucketIndex) == 256);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_INDEX_H_

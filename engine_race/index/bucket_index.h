// The index of one bucket: a row of parts in key order, from the cut of the bucket on.
//
// States: the index is empty until Expect. After it the index only notes the records that are
// appended. Install brings the parts that were built from the cut and adds the noted records. From
// then on each record goes to the delta of its part.
//
// There is one mutator at a time. Prepare and OnAppend are called under the log's lock of the
// bucket. Install excludes them by the state, which it changes under this bucket's own lock.
//
// A bucket is unread while its key log cannot be read. Every lookup answers kIOError until a later
// build has read the bucket and has called Admit.
// A damaged bucket holds only the records that are provably the newest of their keys, tombstones
// included. Any other key may have been lost.
//
// Readers take the bucket's lock, except while nothing has been appended: see UnchangedRun. They
// read a PartRow; BucketGrowth adds records to it.
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
  // A part of more keys is split. The records that it keeps for views count as keys. So a merge or
  // a step of a sweep copies no more records than this, the new ones, and one for each live view.
  static constexpr uint32_t kSplitKeys = uint32_t{128} << 10;
  using Row = PartRow::Parts;

  // To be called before anything else. For tests.
  void set_split_keys(uint32_t split_keys) { split_keys_ = split_keys; }
  // Without it the bucket keeps nothing for views and counts no memory. It must outlive the bucket.
  void set_pinned(PinnedBuckets* pinned) {
    pinned_ = pinned;
    pinned_link_.bucket = this;
  }
  // See Index::SetFrameSlots.
  void set_frame_slots(const std::atomic<uint32_t>* slots) { frames_.set_slots(slots); }

  // From now on records come in by Prepare and OnAppend. To be called before CutBucket.
  void Expect() noexcept;
  // Empties the index for another build. No record may come in any more. Unread stays unread.
  void Forget();
  // Says that the bucket's counts are damaged: every lookup answers kCorruption.
  void MarkUnreadable() noexcept { damaged_ = true; }
  // Says that the bucket is unread. To be called before readers know the index.
  void MarkUnread() noexcept { unread_ = true; }
  // Ends the unread state, after Install. Records that were appended before have no stamps.
  void Admit() noexcept;
  // Takes over the parts that were built from the cut: ascending and disjoint, none of them empty.
  // `damaged`: see the top of this file. kOutOfMemory.
  Status Install(Row parts, bool damaged);

  // Answers the lookups below while nothing has been appended, which is the usual case.
  [[gnu::always_inline]] UnchangedRun unchanged() const { return {unchanged_, first_run_}; }
  // The newest record of `key`. kOk, kNotFound, kCorruption or, in an unread bucket, kIOError.
  Code Find(uint64_t key, ValueRef* ref) const;
  // Finds the record of `key` that a view of `version` shows.
  Code FindAt(uint64_t key, uint64_t version, ValueRef* ref) const;
  // For frames; see Index.
  Code FindHot(uint64_t key, ValueRef* ref) const;
  Code FindHotAt(uint64_t key, uint64_t version, ValueRef* ref) const;
  bool Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept;
  Index::Unswizzled Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept;
  bool Cool(uint64_t key, uint32_t frame) noexcept { return Mark(key, frame, true); }
  bool Heat(uint64_t key, uint32_t frame) noexcept { return Mark(key, frame, false); }

  // See Index.
  Code Collect(uint64_t first_key, uint64_t last_key, size_t max_entries,
               std::vector<IndexEntry>* entries, bool* complete,
               uint64_t version = kLatestVersion) const;
  // FirstKeys gives the lowest keys that a view of `version` shows in [first_key, last_key], at the
  // beginning of `keys`. LastKeys gives the highest ones, at the end of `keys`. Both are ascending.
  // *count is how many they found; fewer than keys.size() only when there are no more. kCorruption
  // for a damaged bucket.
  Code FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version, std::span<uint64_t> keys,
                 size_t* count) const;
  Code LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version, std::span<uint64_t> keys,
                size_t* count) const;
  uint64_t EstimateCount(uint64_t first_key, uint64_t last_key) const;
  // Measured by a walk over the parts.
  uint64_t memory_bytes() const;

  // The calls of AppendListener.
  Status Prepare();
  void OnAppend(const KeyRecord& record) noexcept;

  // One step of a sweep: drops the undo records that no live view needs from the part that *key
  // belongs to, where that pays. Then moves *key to the next part. `live` must hold all versions
  // from a moment before the call on: see ViewRegistry::LiveFromNowOn.
  struct SweptPart {
    bool has_next = false;
    bool is_left = false;     // the part still has history
    size_t record_count = 0;  // looked at in this step
  };
  SweptPart SweepPart(uint64_t* key, const LiveVersions& live) noexcept;

 private:
  enum class State : uint8_t { kEmpty, kExpecting, kInstalled };

  bool Mark(uint64_t key, uint32_t frame, bool cooling) noexcept;
  void Add(uint64_t key, ValueRef ref) noexcept;
  // Exchanges the row under the lock and gives the old one back in *row.
  void SwapRow(PartRow* row) noexcept;
  Status ReserveNoted();
  void FreeNoted() noexcept;
  BucketGrowth::Bucket ForGrowth() noexcept;
  Code CodeOf(bool found, ValueRef ref) const;

  // A lookup usually needs only the first cache line of the bucket.
  std::atomic<bool> unchanged_{false};  // since Install; never true again once it was false
  // Both change under the lock once readers know the index.
  bool damaged_ = false;
  bool unread_ = false;
  mutable ReadWriteLock lock_;
  RunView first_run_;                                // set by Install for good
  std::shared_ptr<const Region> first_run_mapping_;  // keeps its addresses readable

  std::atomic<State> state_{State::kEmpty};  // stored under the lock; Prepare looks without
  bool promised_ = false;  // room in noted_ for a record that may come after Install
  uint32_t split_keys_ = kSplitKeys;
  PartRow row_;
  std::vector<IndexEntry> noted_;  // records between Expect and Install
  BucketGrowth growth_;
  FrameSlots frames_;
  PinnedBuckets* pinned_ = nullptr;
  PinnedLink pinned_link_;
};

// The size is a power of two, so that a lookup finds its bucket with a shift.
static_assert(sizeof(BucketIndex) == 256);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_INDEX_H_

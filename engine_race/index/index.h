// key -> slot for every live record: the room's front page.
//
// Each bucket is a row of parts, neighbours in key order; a part is a sorted, immutable array of
// keys beside an array of references, and a small sorted delta of newer writes. The index is built
// by the first read or range, in parallel, from the key logs; from then on the log tells it of
// every new record. Readers of one bucket share a lock with nobody but that bucket's writers, and
// take none at all until something is written to the bucket.
//
// Thread safety: every const call from any thread, beside the log's appends.
#ifndef ENGINE_RACE_INDEX_INDEX_H_
#define ENGINE_RACE_INDEX_INDEX_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/index/views.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class Index : public AppendListener {
 public:
  // Reads every key log and takes over from then on. Records appended meanwhile are in it too. The
  // log outlives the index. After a failure nothing is left registered with the log. A bucket whose
  // key log cannot be read is no failure of the build but left out: each call below that needs the
  // bucket tries to read it again, and answers kIOError while that fails; see unread_buckets.h.
  static Status Build(BucketLog* log, const Options& options, std::unique_ptr<Index>* index);
  ~Index() override;

  // The newest record of `key`: kNotFound when there is none or it is a tombstone; kCorruption
  // when a damaged entry of the bucket may have been newer, or the bucket's counts are damaged.
  Status Find(uint64_t key, ValueRef* ref) const;

  // The same of what a view of `epoch` shows. Also kIOError, as all calls with an epoch, when the
  // key's bucket was read later than the view was taken and has changed meanwhile.
  Status FindAt(uint64_t key, uint64_t epoch, ValueRef* ref) const;

  // Appends the records of `bucket` that a view of `epoch` shows with keys in [first_key, last_key]
  // to *entries, in ascending order, until *entries holds max_entries. *complete is false when it
  // stopped at that limit with keys perhaps left over. kCorruption for a damaged bucket.
  Status Collect(uint32_t bucket, uint64_t first_key, uint64_t last_key, size_t max_entries,
                 std::vector<IndexEntry>* entries, bool* complete,
                 uint64_t epoch = kLatestEpoch) const;

  // The first keys that a view of `epoch` shows in [first_key, last_key], over all buckets: *count
  // of them, ascending, in keys; fewer than there is room for when no others are there, or before a
  // bucket that is damaged. kCorruption when such a one comes first.
  Status FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch, std::span<uint64_t> keys,
                   size_t* count) const;
  // The same of the last keys, also ascending.
  Status LastKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch, std::span<uint64_t> keys,
                  size_t* count) const;

  // About how many live records of `bucket` have keys in [first_key, last_key].
  uint64_t EstimateCount(uint32_t bucket, uint64_t first_key, uint64_t last_key) const;

  // Frames. A reference may lead to a frame instead of its slot; every call above gives slots.

  // Where the slot of each frame's value is noted; needed until nothing leads to a frame any more.
  // Once, before the first of the calls below. The slot of a frame is noted, with release, while
  // nothing leads there: behind the Unswizzle that saw to that, and before Swizzle.
  void SetFrameSlots(const std::atomic<uint32_t>* slots);

  // As Find and FindAt, but give a frame where there is one. For callers inside the epoch of the
  // frames, which they have entered by a sequentially consistent change of something that the
  // evictor, also so, looks at behind Unswizzle: the frame can then be found by nobody who enters
  // later, whatever became of the record meanwhile. They read no bucket again: a caller that gets
  // kIOError calls Load outside the epoch, and these once more.
  Status FindHot(uint64_t key, ValueRef* ref) const;
  Status FindHotAt(uint64_t key, uint64_t epoch, ValueRef* ref) const;
  // Reads the bucket if it was left out. Ok when it is in the index.
  Status Load(uint32_t bucket) const;

  // A frame holds the value of one record and is found through one word of the index at the most.
  // When the record is superseded or its key deleted, the frame is an orphan: old views may find it
  // for a while, or nobody does. Nobody is told of that; the calls below say it.

  // Makes the newest record of `key` lead to `frame`, when it still is `ref`, which is not hot. The
  // frame, filled, must be one that nothing leads to. False for a damaged bucket, too.
  bool Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept;
  // Sees to it that no record of `key` leads to `frame`, but for kHeated: the record was to be
  // cooling, and somebody has heated it. kOrphaned: the frame was an orphan, marked or not.
  enum class Unswizzled { kDone, kHeated, kOrphaned };
  Unswizzled Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept;
  // Sets and clears the cooling mark of the record of `key` that leads to `frame`. False when the
  // frame is an orphan, which gets no mark and can go at once.
  bool Cool(uint64_t key, uint32_t frame) noexcept;
  bool Heat(uint64_t key, uint32_t frame) noexcept;

  // Counted where the memory changes, so that this costs two loads.
  uint64_t memory_bytes() const noexcept;
  // memory_bytes() by a walk that takes the lock of every bucket in turn: tests compare both while
  // nothing changes.
  uint64_t WalkMemoryBytes() const;
  // Of that, superseded records that are kept because some view may show them; none without views.
  // Beside it, deltas may hold such records, in memory that they have anyway.
  uint64_t pinned_bytes() const;
  // Of this index. It may outlive it.
  ViewRegistry& views() const;

  // AppendListener.
  Status Prepare(uint32_t bucket) override;
  void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept override;

 private:
  Index();
  Status MakeViews();
  // The answer of lookup(), which is called again after Load if the bucket was unread.
  template <typename Lookup>
  Status Answer(uint32_t bucket, uint64_t epoch, const Lookup& lookup) const;
  Status FindSlowly(uint64_t key, ValueRef* ref) const;
  Status FindHotSlowly(uint64_t key, ValueRef* ref) const;
  Status FirstKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                         std::span<uint64_t> keys, size_t* count) const;
  Status LastKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                        std::span<uint64_t> keys, size_t* count) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_H_

// The index: from each live key to the slot of its value. The room's front page.
//
// Each bucket is a row of parts in key order. A part is a sorted, immutable array of keys, an array
// of references beside it, and a small sorted delta of newer writes.
//
// The first read or range builds the index from the key logs, in parallel. From then on the log
// reports every new record. Readers of a bucket share its lock only with the writers of that
// bucket. They take no lock until something is written to the bucket.
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
  // Reads every key log, and is told of every append from then on. The index also has the records
  // that were appended meanwhile. The log must outlive the index. After a failure nothing stays
  // registered with the log.
  //
  // A bucket whose key log cannot be read does not fail the build; it is left out. Each call below
  // that needs the bucket tries to read it again and answers kIOError while that fails: see
  // unread_buckets.h.
  static Status Build(BucketLog* log, const Options& options, std::unique_ptr<Index>* index);
  ~Index() override;

  // The newest record of `key`. kNotFound when there is none or it is a tombstone. kCorruption when
  // a damaged entry of the bucket may have been newer, or the bucket's counts are damaged.
  Status Find(uint64_t key, ValueRef* ref) const;

  // The record of `key` that a view of `version` shows. Like all calls with a version it may also
  // answer kIOError. That is so if the key's bucket was read after the view was taken, and has
  // changed meanwhile.
  Status FindAt(uint64_t key, uint64_t version, ValueRef* ref) const;

  // Appends the records of `bucket` that a view of `version` shows with keys in [first_key,
  // last_key] to *entries, in ascending order. Stops when *entries holds max_entries. *complete is
  // false when it stopped there and keys may be left. kCorruption for a damaged bucket.
  Status Collect(uint32_t bucket, uint64_t first_key, uint64_t last_key, size_t max_entries,
                 std::vector<IndexEntry>* entries, bool* complete,
                 uint64_t version = kLatestVersion) const;

  // The lowest keys that a view of `version` shows in [first_key, last_key], over all buckets:
  // *count of them, ascending, in `keys`. There are fewer than keys.size() when no more are there,
  // or when a damaged bucket follows. kCorruption when a damaged bucket comes first.
  Status FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                   std::span<uint64_t> keys, size_t* count) const;
  // The highest keys of the range instead of the lowest, also ascending and from the beginning of
  // `keys`.
  Status LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version, std::span<uint64_t> keys,
                  size_t* count) const;

  // Estimates how many live records of `bucket` have keys in [first_key, last_key].
  uint64_t EstimateCount(uint32_t bucket, uint64_t first_key, uint64_t last_key) const;

  // Frames. A reference may lead to a frame instead of a slot. Every call above gives slots.

  // Says where the owner of the frames notes the slot of each frame's value. To be called once,
  // before the calls below. The array is needed until no word leads to a frame. The owner notes a
  // slot with release order while no word leads to the frame: after Unswizzle and before Swizzle.
  void SetFrameSlots(const std::atomic<uint32_t>* slots);

  // Find and FindAt, except that they give a frame where there is one. The caller must be inside
  // the epoch of the frames. It enters by a sequentially consistent change, which the evictor looks
  // at after Unswizzle in the same order. So no reader that enters later finds the frame, even if
  // its record has been superseded meanwhile. These calls do not read a bucket that was left out. A
  // caller that gets kIOError leaves the epoch, calls Load, and tries once more.
  Status FindHot(uint64_t key, ValueRef* ref) const;
  Status FindHotAt(uint64_t key, uint64_t version, ValueRef* ref) const;
  // Reads the bucket if it was left out. Ok when it is in the index.
  Status Load(uint32_t bucket) const;

  // A frame holds the value of one record and is found through at most one word of the index. When
  // its record is superseded or its key deleted, the frame is an orphan. Views may still find an
  // orphan. The index does not report that a frame becomes an orphan; the calls below answer it.

  // Makes the newest record of `key` lead to `frame`, if that record still is `ref`, which is not
  // hot. The frame must be filled, and no word may lead to it. False if the record has changed, or
  // for a damaged bucket.
  bool Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept;
  // Makes the word that leads to `frame` lead to its slot again. kHeated: nothing was done, because
  // only a cooling record was to be evicted and a reader has heated it. kOrphaned: the frame was an
  // orphan, whether it was cooling or not.
  enum class Unswizzled { kDone, kHeated, kOrphaned };
  Unswizzled Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept;
  // Sets or clears the cooling bit of the record of `key` that leads to `frame`. False when the
  // frame is an orphan, which gets no bit and can be evicted at once.
  bool Cool(uint64_t key, uint32_t frame) noexcept;
  bool Heat(uint64_t key, uint32_t frame) noexcept;

  // The memory of the index. Counted where it changes, so a call costs two loads.
  uint64_t memory_bytes() const noexcept;
  // memory_bytes() by a walk that locks one bucket after another. Tests compare both while nothing
  // changes.
  uint64_t WalkMemoryBytes() const;
  // The part of memory_bytes() for superseded records that views may show; 0 without views. Deltas
  // may hold more of them, in memory that they have anyway.
  uint64_t pinned_bytes() const;
  // The registry of the views of this index. It may outlive the index.
  ViewRegistry& views() const;

  // The calls of AppendListener.
  Status Prepare(uint32_t bucket) override;
  void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept override;

 private:
  Index();
  Status MakeViews();
  // Calls lookup(), and once more after Load if the bucket was unread.
  template <typename Lookup>
  Status Answer(uint32_t bucket, uint64_t version, const Lookup& lookup) const;
  Status FindSlowly(uint64_t key, ValueRef* ref) const;
  Status FindHotSlowly(uint64_t key, ValueRef* ref) const;
  Status FirstKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t version,
                         std::span<uint64_t> keys, size_t* count) const;
  Status LastKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t version,
                        std::span<uint64_t> keys, size_t* count) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_H_

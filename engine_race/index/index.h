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

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/views.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

// What the index keeps of a record beside its key, in one word: slot, value sum, tombstone bit.
class ValueRef {
 public:
  ValueRef() = default;
  ValueRef(uint32_t slot, uint32_t value_sum, bool tombstone)
      : word_(slot | (uint64_t{value_sum} << format::kSlotBits) |
              (uint64_t{tombstone} << (format::kSlotBits + format::kSumBits))) {}

  uint32_t slot() const { return static_cast<uint32_t>(word_ & (kMaxBucketRecords - 1)); }
  uint32_t value_sum() const {
    return static_cast<uint32_t>((word_ >> format::kSlotBits) & format::kSumMask);
  }
  bool tombstone() const { return ((word_ >> (format::kSlotBits + format::kSumBits)) & 1) != 0; }

  // Where there is no record, or none is known: a tombstone that nobody wrote.
  static ValueRef None() {
    ValueRef ref(0, 0, true);
    ref.word_ |= kNoneBit;
    return ref;
  }
  bool none() const { return (word_ & kNoneBit) != 0; }

 private:
  static constexpr uint64_t kNoneBit = uint64_t{1} << 63;
  static_assert(format::kSlotBits + format::kSumBits + 1 < 63);

  uint64_t word_ = 0;
};
static_assert(sizeof(ValueRef) == 8);

struct IndexEntry {
  uint64_t key = 0;
  ValueRef ref;
};
static_assert(sizeof(IndexEntry) == 16);

class Index : public AppendListener {
 public:
  // Reads every key log and takes over from then on. Records appended meanwhile are in it too. The
  // log outlives the index. After a failure nothing is left registered with the log.
  static Status Build(BucketLog* log, const Options& options, std::unique_ptr<Index>* index);
  ~Index() override;

  // The newest record of `key`: kNotFound when there is none or it is a tombstone; kCorruption
  // when a damaged entry of the bucket may have been newer, or the bucket's counts are damaged.
  Status Find(uint64_t key, ValueRef* ref) const;

  // The same of what a view of `epoch` shows.
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

  uint64_t memory_bytes() const;
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
  Status FindSlowly(uint64_t key, ValueRef* ref) const;
  Status FirstKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                         std::span<uint64_t> keys, size_t* count) const;
  Status LastKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                        std::span<uint64_t> keys, size_t* count) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_H_

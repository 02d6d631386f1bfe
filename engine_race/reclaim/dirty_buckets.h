// A queue of the buckets that wait to be cleaned.
//
// Estimates for each bucket how many appended records replace others. Entries are compared in
// pieces of 256. Records that are replaced within a piece are all counted, so a bucket with a few
// keys that are written often is found. Of the keys of all pieces one in 64 is noted, and counted
// when a later piece has it again. A bucket with enough replaced records waits to be cleaned. So a
// new bucket that is never overwritten is not cleaned in its first opening. A tombstone counts as
// replaced: it is dead once no older record of its key is left. Once cleaned, a bucket waits again
// when half of its empty slots were filled, and at least a row. Slots that it may still take count
// as empty.
//
// The record count at which a bucket is to be cleaned is kept in its line of counts. So it outlives
// an opening, and a store that is opened often for few writes each is cleaned as any other. Where
// the line does not have it, nothing is known of records from an earlier opening. A bucket with
// rows then waits at its next full group. Any other waits when `reclaim_dead_percent` of its
// records, and at least a row, were appended.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_RECLAIM_DIRTY_BUCKETS_H_
#define ENGINE_RACE_RECLAIM_DIRTY_BUCKETS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/reclaim/bucket_cleaner.h"

namespace engine_race {

class DirtyBuckets final : public KeyGroupListener {
 public:
  // `wake` is called after each change that a thread may wait for. It may not throw.
  DirtyBuckets(const Options& options, BucketLog* log, std::function<void()> wake);

  void OnKeyGroup(uint32_t bucket, std::span<const format::KeyEntry> entries,
                  uint64_t record_count) noexcept override;

  // Queues the buckets that were to be cleaned when the last opening ended.
  void QueueDue();
  // Keeps what is known for the next opening. A bucket with freed slots that were not settled is
  // due in the next one, which finds them unfreed.
  void Keep() noexcept;

  // Takes an urgent bucket, else the one that has waited longest. False: none waits.
  bool Take(uint32_t* bucket);
  bool empty() const;
  // For a bucket that was taken, and that a batch holds: it waits until BringBack queues it again.
  void PutAside(uint32_t bucket) noexcept;
  bool has_aside() const;
  void BringBack() noexcept;
  // Whether many buckets wait, or one is urgent: a row was appended while it waited.
  bool are_many() const {
    return urgent_count_.load(std::memory_order_relaxed) != 0 ||
           waiting_count_.load(std::memory_order_relaxed) > max_waiting_count_;
  }

  // `dead_percent`: as for SlotLimit. Also limits its rows (RowMover::LimitRows), unless reclaim is
  // off. True: another cleaning may find more to free once this one's slots are settled. For
  // example tombstones whose older records lay there.
  bool NoteCleaned(uint32_t bucket, uint32_t dead_percent, const BucketUse& use);
  // Of the buckets that are not in `tried`: the one with the most dead records. In buckets that
  // were not cleaned since the opening all may be dead. False: none has as many as an eighth
  // of a row.
  bool FindMostDead(const std::set<uint32_t>& tried, uint32_t* bucket) const;
  // Whether a bucket has more slots than SlotLimit by over a twelfth of that, and by over a row.
  // False for a bucket that was not cleaned since the opening.
  bool IsSparse(uint32_t bucket) const;
  // About how many slots the rows of all buckets have that are in use.
  uint64_t slot_count() const { return slot_count_.load(std::memory_order_relaxed); }
  // As BucketSpace in store_stats.h. False: the bucket was not cleaned since the opening, so the
  // number of dead records is not known.
  bool BytesOf(uint32_t bucket, uint64_t* live_bytes, uint64_t* dead_bytes) const;

 private:
  struct State {
    mutable std::mutex mutex;
    // Hashes of the keys that are watched, and how many appends had one that was there already.
    std::unordered_set<uint32_t> seen_keys;
    uint64_t repeat_count = 0;
    // Records that were replaced within their piece of entries.
    uint64_t replaced_count = 0;
    uint64_t unknown_count = 0;  // records whose keys were not seen
    // The record count at which the bucket is cleaned; ~0: when enough records were replaced.
    uint64_t clean_at = ~uint64_t{0};
    // As the line of counts has it. 0: nothing.
    uint64_t kept_clean_at = 0;
    // The bucket's record count at the opening.
    uint64_t found_count = 0;
    bool queued = false;
    bool urgent = false;
    bool was_cleaned = false;
    BucketUse use;
    // Its part of slot_count().
    uint64_t slot_count = 0;
  };

  static void CountReplaced(State* bucket, std::span<const format::KeyEntry> entries);
  static uint64_t DeadCount(const State& bucket, uint64_t record_count);
  bool WasReplaced(State* bucket, std::span<const format::KeyEntry> entries, uint64_t record_count);
  bool Enqueue(uint32_t bucket, bool urgent);
  bool KeepCleanAt(uint32_t number, uint64_t clean_at) noexcept;
  void CountSlots(State* bucket, uint64_t count) noexcept;

  const uint32_t dead_percent_;
  // Not with Reclaim::kOff: then no writer cleans a bucket that has no room.
  const bool limits_rows_;
  BucketLog& log_;
  const std::function<void()> wake_;
  const std::unique_ptr<State[]> buckets_;
  const size_t max_waiting_count_;
  // Relaxed everywhere: hints.
  std::atomic<uint64_t> slot_count_{0};
  std::atomic<uint32_t> urgent_count_{0};
  std::atomic<size_t> waiting_count_{0};
  mutable std::mutex mutex_;  // around the next two
  std::deque<uint32_t> queue_;
  std::vector<uint32_t> aside_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_DIRTY_BUCKETS_H_

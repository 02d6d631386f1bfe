// Which buckets are to be cleaned.
//
// Counts, for each bucket, how much of what is appended replaces something: of one key in 64 it
// notes that it was seen. A bucket of which enough was replaced is to be cleaned. From then on it
// is whenever as many records were appended as the share of dead records leaves room for. So a
// store that is never overwritten is never cleaned.
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
#include <span>
#include <unordered_set>

#include "engine_race/base/options.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/reclaim/bucket_cleaner.h"

namespace engine_race {

class DirtyBuckets final : public KeyGroupListener {
 public:
  // `wake` is called after each change that a thread may wait for. It may not throw.
  DirtyBuckets(const Options& options, const BucketLog& log, std::function<void()> wake);

  void OnKeyGroup(uint32_t bucket, std::span<const format::KeyEntry> entries,
                  uint64_t record_count) noexcept override;

  // Takes the bucket that has waited longest, or one that waits for too long. False: there is none.
  bool Take(uint32_t* bucket);
  bool empty() const;
  // Whether many buckets wait, or one for too long.
  bool are_many() const {
    return urgent_count_.load(std::memory_order_relaxed) != 0 ||
           waiting_count_.load(std::memory_order_relaxed) > max_waiting_count_;
  }

  // `dead_percent`: the share of dead records that it was cleaned to.
  void NoteCleaned(uint32_t bucket, uint32_t dead_percent, const BucketUse& use);
  // Of all buckets, about: slots of cells that take space.
  uint64_t held_count() const { return held_count_.load(std::memory_order_relaxed); }
  // Space that the values of live and dead records take. A bucket that was not cleaned in this
  // opening has no dead records.
  void BytesOf(uint32_t bucket, uint64_t* live_bytes, uint64_t* dead_bytes) const;

 private:
  struct State {
    mutable std::mutex mutex;
    // Hashes of the keys that are watched, and how many appends had one that was there already.
    std::unordered_set<uint32_t> seen_keys;
    uint64_t repeat_count = 0;
    uint64_t watched_from = 0;
    // The bucket is to be cleaned when it has so many records; ~0: when enough was replaced.
    uint64_t clean_at = ~uint64_t{0};
    bool queued = false;
    bool urgent = false;
    bool was_cleaned = false;
    BucketUse use;
  };

  bool WasReplaced(State* bucket, std::span<const format::KeyEntry> entries, uint64_t record_count);
  bool Enqueue(uint32_t bucket, bool urgent);

  const uint32_t dead_percent_;
  const BucketLog& log_;
  const std::function<void()> wake_;
  const std::unique_ptr<State[]> buckets_;
  const size_t max_waiting_count_;
  // Relaxed, all: hints.
  std::atomic<uint64_t> held_count_{0};
  std::atomic<uint32_t> urgent_count_{0};
  std::atomic<size_t> waiting_count_{0};
  mutable std::mutex mutex_;  // around the queue
  std::deque<uint32_t> queue_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_DIRTY_BUCKETS_H_

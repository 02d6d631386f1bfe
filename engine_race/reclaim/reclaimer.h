// Gives back the space of overwritten and deleted records.
//
// Counts, for each bucket, how much of what is appended replaces something: of one key in 64 it
// notes that it was seen. A bucket of which enough was replaced is cleaned (bucket_cleaner.h). From
// then on the bucket is cleaned whenever as many records were appended as the share of dead records
// leaves room for. So a store that is never overwritten is never cleaned.
//
// A thread of its own cleans, settles and releases (log/row_mover.h). Where it falls behind,
// threads that write help it: so writers that are faster than cleaning slow down, and space does
// not grow.
//
// Thread safety: every call from any thread. Owner of its thread.
#ifndef ENGINE_RACE_RECLAIM_RECLAIMER_H_
#define ENGINE_RACE_RECLAIM_RECLAIMER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/reclaim/bucket_cleaner.h"

namespace engine_race {

// How many records are to be written, by bucket.
using RecordCounts = std::map<uint32_t, uint64_t>;

struct ReclaimStats {
  // Space that the values of live and dead records take. A bucket that was not cleaned in this
  // opening has no dead records.
  uint64_t live_bytes = 0;
  uint64_t dead_bytes = 0;
  uint64_t read_bytes = 0;      // of entries and values
  uint64_t moved_bytes = 0;     // written again
  uint64_t released_bytes = 0;  // given back
};

class Reclaimer final : public KeyGroupListener {
 public:
  Reclaimer(const Options& options, BucketLog* log);
  // Ends the thread. Cells that are not released yet are when the store is opened again.
  ~Reclaimer() override;

  // Begins to watch the log and starts the thread, where the options want that. kOutOfMemory.
  Status Start();

  // For threads that have written: whether cleaning has fallen behind, and a step of it.
  bool wants_help() const {
    return urgent_count_.load(std::memory_order_relaxed) != 0 ||
           queued_count_.load(std::memory_order_relaxed) > max_queued_count_;
  }
  void Help() noexcept;
  // Whether the regions of all these buckets have room for so many records.
  bool HasRoom(const RecordCounts& counts) const;
  // For a writer that was told kFull: frees rows of the regions that are full, or space of a full
  // disk. *freed: the write may succeed now.
  Status MakeSpace(const RecordCounts& counts, bool* freed);
  // Frees all that nobody needs, in every bucket, and gives it back.
  Status Compact();

  ReclaimStats Stats() const;
  // Of one bucket: live and dead bytes.
  void BucketBytes(uint32_t bucket, uint64_t* live_bytes, uint64_t* dead_bytes) const;

  void OnKeyGroup(uint32_t bucket, std::span<const format::KeyEntry> entries,
                  uint64_t record_count) noexcept override;

 private:
  struct BucketState {
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

  void Run() noexcept;
  void Claim(uint32_t bucket);
  Status MakeRoom(uint32_t bucket, uint64_t record_count, bool* made);
  Status FreeOnDisk(uint32_t bucket, bool* freed);
  void AwaitReaders(uint32_t bucket, uint64_t record_count);
  Status CompactOne(BucketCleaner* cleaner, uint32_t bucket);
  bool NextBucket(uint32_t* bucket);
  Status CleanOne(BucketCleaner* cleaner, uint32_t bucket, uint32_t dead_percent);
  void NoteCleaned(uint32_t bucket, const BucketUse& use);
  void Enqueue(uint32_t bucket, bool urgent);
  uint64_t SettleBytes() const;
  bool MustSettle() const;
  bool IsFarBehind() const;
  void SettleAndRelease() noexcept;
  void ReleaseAll() noexcept;
  void Report(const Status& status) noexcept;
  void KeepRate();

  const Options options_;
  BucketLog& log_;
  std::unique_ptr<BucketState[]> buckets_;
  const size_t max_queued_count_;
  // Relaxed, both: hints.
  std::atomic<uint32_t> urgent_count_{0};
  std::atomic<size_t> queued_count_{0};
  std::atomic<bool> has_failed_{false};
  mutable std::mutex mutex_;  // around the queue
  std::condition_variable work_;
  std::deque<uint32_t> queue_;
  // Under mutex_: cells may wait to be settled and released that the thread does not know of.
  bool look_again_ = false;
  bool stop_ = false;
  std::mutex settle_mutex_;  // writers that settle come one by one
  std::mutex helpers_mutex_;
  std::vector<std::unique_ptr<BucketCleaner>> helpers_;  // idle ones, under helpers_mutex_
  uint64_t rate_began_ns_ = 0;
  std::thread thread_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_RECLAIMER_H_

// Gives back the space of overwritten and deleted records.
//
// A thread of its own cleans the buckets that need it (dirty_buckets.h), settles and releases
// (log/row_mover.h). Where it falls behind, threads that write help it: so writers that are faster
// than cleaning slow down, and space does not grow.
//
// Thread safety: every call from any thread. Owner of its thread.
#ifndef ENGINE_RACE_RECLAIM_RECLAIMER_H_
#define ENGINE_RACE_RECLAIM_RECLAIMER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/reclaim/bucket_cleaner.h"
#include "engine_race/reclaim/dirty_buckets.h"

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

class Reclaimer {
 public:
  Reclaimer(const Options& options, BucketLog* log);
  // Ends the thread. Cells that are not released yet are when the store is opened again.
  ~Reclaimer();

  // Begins to watch the log and starts the thread, where the options want that. kOutOfMemory.
  Status Start();

  // For threads that have written: whether cleaning has fallen behind, and a step of it.
  bool wants_help() const { return dirty_.are_many(); }
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
  void BucketBytes(uint32_t bucket, uint64_t* live_bytes, uint64_t* dead_bytes) const {
    dirty_.BytesOf(bucket, live_bytes, dead_bytes);
  }

 private:
  void Run() noexcept;
  void Claim(uint32_t bucket);
  Status MakeRoom(uint32_t bucket, uint64_t record_count, bool* made);
  Status FreeOnDisk(uint32_t bucket, bool* freed);
  void AwaitRelease(uint32_t bucket, uint64_t record_count);
  Status CompactOne(BucketCleaner* cleaner, uint32_t bucket);
  std::unique_ptr<BucketCleaner> TakeHelper();
  void Wake();
  Status CleanOne(BucketCleaner* cleaner, uint32_t bucket, uint32_t dead_percent);
  void NoteCleaned(uint32_t bucket, uint32_t dead_percent, const BucketUse& use);
  uint32_t DeadPercent() const;
  uint64_t SettleBytes() const;
  bool MustSettle() const;
  bool IsFarBehind() const;
  void SettleAndRelease() noexcept;
  void ReleaseAll() noexcept;
  void Report(const Status& status) noexcept;
  void KeepRate();

  const Options options_;
  BucketLog& log_;
  DirtyBuckets dirty_;
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;  // around the next three
  std::condition_variable work_;
  // Cells may wait to be settled and released that the thread does not know of.
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

// Gives back the space of overwritten and deleted records.
//
// A thread of its own cleans the buckets that wait for it (dirty_buckets.h), settles and releases
// (log/row_mover.h). Where it falls behind, threads that write help it. So writers that are faster
// than cleaning slow down, and space does not grow. Once the store is idle, the thread compacts
// sparse buckets (DirtyBuckets::IsSparse).
//
// Thread safety: every call from any thread. Owner of its thread.
#ifndef ENGINE_RACE_RECLAIM_RECLAIMER_H_
#define ENGINE_RACE_RECLAIM_RECLAIMER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/reclaim/bucket_cleaner.h"
#include "engine_race/reclaim/dirty_buckets.h"

namespace engine_race {

// Records to be written to a bucket, and how many keys they leave with a value.
struct WantedRoom {
  uint64_t record_count = 0;
  uint64_t key_count = 0;
};
using WantedRooms = std::map<uint32_t, WantedRoom>;

struct ReclaimStats {
  // The sums of BucketSpace in store_stats.h.
  uint64_t live_bytes = 0;
  uint64_t dead_bytes = 0;
  uint64_t read_bytes = 0;      // of entries and values
  uint64_t moved_bytes = 0;     // written again
  uint64_t released_bytes = 0;  // filled again, or given back
};

class Reclaimer {
 public:
  // The store is idle when nothing was written for `idle_delay`.
  Reclaimer(const Options& options, BucketLog* log,
            std::chrono::milliseconds idle_delay = std::chrono::seconds(5));
  ~Reclaimer();

  // With Reclaim::kBackground: begins to watch the log and starts the thread. kOutOfMemory.
  Status Start();
  // Ends the thread and the watch. Slots that wait for Release are left to the next opening. Other
  // threads may still call.
  void Stop();

  // For threads that have written: whether cleaning has fallen behind, and the cleaning of one
  // bucket.
  bool wants_help() const { return dirty_.are_many(); }
  void Help() noexcept;
  // Whether these buckets have room for the records.
  bool HasRoom(const WantedRooms& rooms) const;
  // For a writer whose write answered kFull. With `disk_is_full` frees slots of its buckets, or
  // gives back disk space. Else frees slots of the buckets that have no room, or lets these take
  // more rows. *freed: the write may succeed now.
  Status MakeSpace(const WantedRooms& rooms, bool disk_is_full, bool* freed);
  // As Store::Compact.
  Status Compact(const ProgressFn& on_progress);

  ReclaimStats Stats() const;
  // Of one bucket: live and dead bytes.
  void BucketBytes(uint32_t bucket, uint64_t* live_bytes, uint64_t* dead_bytes) const {
    dirty_.BytesOf(bucket, live_bytes, dead_bytes);
  }

 private:
  void Run() noexcept;
  Status MakeRoom(uint32_t bucket, const WantedRoom& wanted, bool* made);
  bool LetFillIfLive(uint32_t bucket, const WantedRoom& wanted, uint64_t live_count);
  uint64_t MostRoom(uint32_t bucket) const;
  Status FreeOnDisk(const WantedRooms& rooms, bool* freed);
  // `is_own`: for a write to that bucket.
  Status FreeOf(uint32_t bucket, bool is_own, bool* freed);
  void AwaitRelease(uint32_t bucket, uint64_t record_count);
  // Compacts the buckets for which `claim` is true: it has claimed them then.
  Status CompactSynced(FunctionRef<bool(uint32_t bucket)> claim, const ProgressFn& on_progress);
  bool CompactIdle(uint64_t record_count) noexcept;
  Status CompactClaimed(BucketCleaner* cleaner, uint32_t bucket, SharedProgress* progress);
  std::unique_ptr<BucketCleaner> TakeHelper();
  void Wake();
  // *use: zeros if another thread cleans the bucket, or a batch holds it.
  Status CleanOne(BucketCleaner* cleaner, uint32_t bucket, uint32_t dead_percent, BucketUse* use);
  void NoteCleaned(uint32_t bucket, uint32_t dead_percent, const BucketUse& use);
  uint32_t DeadPercent() const;
  uint64_t SettleBytes() const;
  bool MustSettle() const;
  bool IsFarBehind() const;
  // The status is that of Settle.
  Status SettleAndRelease() noexcept;
  // Releases slots in this thread and in at most `max_thread_count` more.
  void ReleaseAll(uint64_t max_thread_count) noexcept;
  void Report(const Status& status) noexcept;
  void KeepRate(uint64_t began_ns, uint64_t moved_bytes);

  const Options options_;
  BucketLog& log_;
  const std::chrono::milliseconds idle_delay_;
  DirtyBuckets dirty_;
  // Used by the thread alone. By bucket: its record count at its last idle compaction.
  std::vector<uint64_t> compacted_counts_;
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;  // around the next three
  std::condition_variable work_;
  // Slots may have come to wait since the thread last looked.
  bool look_again_ = false;
  bool stop_ = false;
  std::mutex settle_mutex_;  // one writer settles at a time
  std::mutex helpers_mutex_;
  std::vector<std::unique_ptr<BucketCleaner>> helpers_;  // idle ones, under helpers_mutex_
  std::thread thread_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_RECLAIMER_H_

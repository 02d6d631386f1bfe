// Building every bucket's index from its key log, with several threads.
//
// Each thread takes buckets in turn and keeps the reads of its next ones in flight while it sorts
// the current one. Buckets too large for one thread come last, one by one, sorted by all threads:
// see giant_build.h.
//
// A bucket whose own key log cannot be read is left out: nothing of it stays registered with the
// log, and it is unread, see bucket_index.h, until BuildBucket has read it.
#ifndef ENGINE_RACE_INDEX_BUILD_H_
#define ENGINE_RACE_INDEX_BUILD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/unread_buckets.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

// Sizes that tests make small.
struct BuildLimits {
  // Buckets with more records are giants.
  uint64_t giant_records = uint64_t{256} << 10;
  size_t split_keys = BucketIndex::kSplitKeys;
  // Key logs are read in pieces of this size, a multiple of kIoAlignment.
  uint32_t piece_bytes = 1 << 20;
  // A thread reads this many buckets ahead.
  uint32_t window_buckets = 6;
  // A giant is cut into parts of about this many records.
  uint64_t partition_records = uint64_t{96} << 10;
  // What sorting a giant may take beside the index itself.
  uint64_t giant_memory_bytes = uint64_t{256} << 20;

  static BuildLimits For(const Options& options);
};

// What the threads of one build share. Thread-safe.
class BuildContext {
 public:
  // Everything outlives the context. `buckets` has one BucketIndex for each bucket of the log.
  BuildContext(BucketLog* log, AppendListener* listener, const Options& options,
               const BuildLimits& limits, std::span<BucketIndex> buckets, UnreadBuckets* unread)
      : log_(log),
        listener_(listener),
        options_(options),
        limits_(limits),
        buckets_(buckets),
        unread_(unread) {}

  BucketLog& log() const { return *log_; }
  const Options& options() const { return options_; }
  const BuildLimits& limits() const { return limits_; }
  BucketIndex& bucket(uint32_t index) const { return buckets_[index]; }
  uint32_t bucket_count() const { return static_cast<uint32_t>(buckets_.size()); }
  uint32_t thread_count() const;

  // Cuts the bucket in the log: from here on its records come to the listener too.
  Status Cut(uint32_t bucket, BucketCut* cut);
  // Detaches the listener from every bucket and empties them.
  void Undo();
  // Detaches it from one bucket and empties that.
  void Undo(uint32_t bucket);
  // Undoes the bucket and leaves it out, for `why`. May throw std::bad_alloc.
  void LeaveOut(uint32_t bucket, const Status& why);
  // `why` with the bucket's name.
  static Status UnreadStatus(uint32_t bucket, const Status& why);

  // Calls `work` with 0, 1, ... on `count` threads or, when threads are refused, fewer. Answers
  // with the first failure. One call at a time.
  Status RunThreads(uint32_t count, const std::function<Status(uint32_t worker)>& work);
  // After a failure the other threads of the same call give up.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Says which entries of a bucket are damaged, a few of them by name.
  void ReportDamage(uint32_t bucket, std::span<const uint32_t> slots, uint64_t total) const;

 private:
  BucketLog* const log_;
  AppendListener* const listener_;
  const Options& options_;
  const BuildLimits limits_;
  const std::span<BucketIndex> buckets_;
  std::mutex unread_mutex_;
  UnreadBuckets* const unread_;  // under unread_mutex_
  // Relaxed everywhere: a hint.
  std::atomic<bool> failed_{false};
};

// Builds and installs every bucket, or leaves it out. On failure nothing stays registered with the
// log.
Status BuildAllBuckets(BuildContext* context);

// Builds and installs a bucket that was left out, beside readers that know the index; they find it
// once it is admitted. On failure the bucket is as it was.
Status BuildBucket(BuildContext* context, uint32_t bucket);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUILD_H_

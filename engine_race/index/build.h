// Building the index of every bucket that was not restored, from its key log, with several threads.
//
// Each thread takes one bucket after another. It keeps the reads of its next buckets in flight
// while it sorts the current one. Buckets that are too large for one thread come last, one by one,
// and all threads sort them: see giant_build.h.
//
// A bucket whose key log cannot be read is left out. Nothing of it stays registered with the log.
// It is unread (see bucket_index.h) until a BucketBuilder has read it.
#ifndef ENGINE_RACE_INDEX_BUILD_H_
#define ENGINE_RACE_INDEX_BUILD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/paging.h"
#include "engine_race/index/unread_buckets.h"
#include "engine_race/l1/extent_image.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

// Sizes that tests make small.
struct BuildLimits {
  // Buckets with more records are giants. A thread sorts a smaller one in about 98 bytes a record.
  uint64_t giant_records = uint64_t{2} << 20;
  size_t split_keys = BucketIndex::kSplitKeys;
  // Key logs are read in pieces of this size, a multiple of kIoAlignment.
  uint32_t piece_bytes = 1 << 20;
  // A thread reads at most this many buckets ahead, and no more than these bytes if that is two.
  uint32_t window_buckets = 6;
  uint64_t window_bytes = uint64_t{64} << 20;
  // A giant is cut into parts of about this many records.
  uint64_t partition_records = uint64_t{96} << 10;
  // The memory for sorting a giant, beside the index itself.
  uint64_t giant_memory_bytes = uint64_t{256} << 20;

  static BuildLimits For(const Options& options, uint32_t thread_count);
};

// How many threads build an index. Threads that write what they build wait half of their time, so
// there are twice as many of them.
uint32_t BuildThreadCount(const BucketLog& log, const Options& options, bool writes_extents);

// The state that the threads of one build share. Thread-safe.
class BuildContext {
 public:
  // All arguments outlive the context. `buckets` has one BucketIndex for each bucket of the log.
  BuildContext(BucketLog* log, AppendListener* listener, const Options& options,
               const BuildLimits& limits, uint32_t thread_count, std::span<BucketIndex> buckets,
               UnreadBuckets* unread)
      : thread_count_(thread_count),
        log_(log),
        listener_(listener),
        options_(options),
        limits_(limits),
        buckets_(buckets),
        unread_(unread),
        is_restored_(buckets.size()) {}

  BucketLog& log() const { return *log_; }
  const Options& options() const { return options_; }
  const BuildLimits& limits() const { return limits_; }
  BucketIndex& bucket(uint32_t index) const { return buckets_[index]; }
  uint32_t bucket_count() const { return static_cast<uint32_t>(buckets_.size()); }
  uint32_t thread_count() const { return thread_count_; }
  // Whether all threads sort the bucket: see giant_build.h.
  bool IsGiant(uint32_t bucket) const { return log_->SlotEnd(bucket) > limits_.giant_records; }

  // Cuts the bucket in the log. From here on the log reports its new records to the listener.
  // Appended records below `first_sequence` are known already.
  Status Cut(uint32_t bucket, uint64_t first_sequence, BucketCut* cut);
  // A restored bucket is not built.
  void MarkRestored(uint32_t bucket) { is_restored_[bucket] = 1; }
  bool is_restored(uint32_t bucket) const { return is_restored_[bucket] != 0; }
  // Without it nothing is paged. It outlives the context.
  void set_paging(Paging* paging) { paging_ = paging; }
  // Writes parts that are not installed yet to extents if the index does not fit its memory.
  // `other_bytes` is what other parts of that kind take. `image` is the calling thread's own.
  void PageFresh(std::span<const std::unique_ptr<Part>> parts, uint64_t other_bytes,
                 l1::ExtentImage* image);
  // Detaches the listener from every bucket and empties the buckets.
  void Undo();
  // Detaches the listener from one bucket and empties that bucket.
  void Undo(uint32_t bucket);
  // Undoes the bucket and leaves it out because of `why`. May throw std::bad_alloc.
  void LeaveOut(uint32_t bucket, const Status& why);
  // `why` with the bucket's number added.
  static Status UnreadStatus(uint32_t bucket, const Status& why);

  // Calls `work` with 0, 1, ... on `count` threads, or on fewer when the system refuses threads.
  // Returns the first failure. One call at a time.
  Status RunThreads(uint32_t count, const std::function<Status(uint32_t worker)>& work);
  // True after a failure: the other threads of the same call then stop.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Reports the damaged entries of a bucket, a few of them by slot.
  void ReportDamage(uint32_t bucket, std::span<const uint32_t> slots, uint64_t total) const;

 private:
  const uint32_t thread_count_;
  BucketLog* const log_;
  AppendListener* const listener_;
  const Options& options_;
  const BuildLimits limits_;
  const std::span<BucketIndex> buckets_;
  std::mutex unread_mutex_;
  UnreadBuckets* const unread_;  // under unread_mutex_
  // A byte each: threads mark different buckets.
  std::vector<uint8_t> is_restored_;
  Paging* paging_ = nullptr;
  std::atomic<bool> cannot_page_{false};  // relaxed: a hint
  // Relaxed everywhere: only a hint.
  std::atomic<bool> failed_{false};
};

// Builds and installs every bucket, or leaves it out. After a failure nothing stays registered with
// the log.
Status BuildAllBuckets(BuildContext* context);

// Builds and installs a bucket that was left out or waits by `build`, beside readers that know the
// index. They find the bucket once it is admitted. After a failure the bucket is left out as
// before.
Status BuildBucket(BuildContext* context, uint32_t bucket, FunctionRef<Status()> build);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUILD_H_

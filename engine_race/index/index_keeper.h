// The keeper of an index: a thread that moves runs between memory and disk ahead of need. It also
// merges the deltas of paged parts, sweeps history that no view needs, and has roots written with
// which the next opening begins.
//
// The keeper pages all runs when the index does not fit its memory. It makes runs flat again when
// they are read and all would fit. It writes runs that are not on disk when the store was hardly
// used for a while, until it is used again. Where the system refuses the thread, writers merge for
// themselves, sweeps wait for a call that can start it, and everything else waits for Save.
//
// The log callback gets the first failure of the thread's work. A run that cannot be written stays
// in memory.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_INDEX_INDEX_KEEPER_H_
#define ENGINE_RACE_INDEX_INDEX_KEEPER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/bucket_shared.h"
#include "engine_race/index/paging.h"
#include "engine_race/index/root_writer.h"
#include "engine_race/l1/extent_image.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class IndexKeeper {
 public:
  // Drops a bucket that has an extent which cannot be read.
  using LoseFn = std::function<void(uint32_t bucket, const Status& why)>;
  // How many records the store has read so far.
  using ReadsFn = std::function<uint64_t()>;

  // All outlive it.
  IndexKeeper(BucketLog* log, const Options& options, std::span<BucketIndex> buckets,
              BucketShared* shared, RootWriter* roots, LoseFn lose, ReadsFn reads);
  IndexKeeper(const IndexKeeper&) = delete;
  IndexKeeper& operator=(const IndexKeeper&) = delete;
  // Stops the thread after its present step.
  ~IndexKeeper() { Stop(); }

  // Wakes the thread, which is started by the first call.
  void Wake() noexcept;
  void Stop() noexcept;

  // Writes runs that are not on disk, at most `max_bytes`, and a root that names them. A bucket
  // that would exceed the bytes is left out, and so is one with few records: an opening reads its
  // key log as fast. With `only_extents` no root is written if it would name the same extents.
  Status Save(uint64_t max_bytes, bool only_extents);
  // Saves after a Sync, if that writes at most `max_bytes`, and little beside the values that were
  // written since the last time.
  Status SaveIfCheap(uint64_t max_bytes);

 private:
  // Runs work(bucket) with the bucket claimed. False if it cannot be claimed now. A failure to read
  // an extent loses the bucket.
  template <typename WorkFn>
  bool WithClaimed(uint32_t bucket, const WorkFn& work, Status* status);
  // The bytes of extents that Save would write.
  uint64_t UnwrittenBytes() const;
  uint64_t UnwrittenBytesOf(uint32_t bucket) const;
  // Merges the deltas of buckets that an opening would build because their tails are too long.
  // Leaves out buckets that would exceed max_bytes. Stops when `must_stop` says so.
  void MergeLongTails(uint64_t max_bytes, FunctionRef<bool()> must_stop);
  // Writes runs until `must_stop` says so or max_bytes are written.
  Status WriteRuns(uint64_t max_bytes, FunctionRef<bool()> must_stop);
  void SaveWhenIdle();
  void MergeLargeDeltas();
  void Run() noexcept;
  void Step();
  bool AwaitWork(std::unique_lock<std::mutex>* lock);  // under mutex_
  void Serve(const Paging::Request& request);
  void EndRest(BucketIndex* index);
  uint32_t NumberOf(const BucketIndex* index) const {
    return static_cast<uint32_t>(index - buckets_.data());
  }
  // False if the bucket cannot be claimed now, or a merge failed.
  bool Merge(uint32_t bucket, uint32_t min_records);
  void PageAll();
  void AwaitReaders();
  bool IsStopping();
  // Whether a long step must end. Between two buckets, none claimed: sweeps what is due meanwhile.
  bool EndsStep();
  bool IsIdle();
  // Whether the store has been used since the last call of IsIdle.
  bool IsBusy() const;
  void Report(const Status& status);

  BucketLog& log_;
  const Options& options_;
  const std::span<BucketIndex> buckets_;
  BucketShared& shared_;
  Paging& paging_;
  RootWriter& roots_;
  const LoseFn lose_;
  const ReadsFn reads_;

  // The number of records when SaveIfCheap last saved.
  std::atomic<uint64_t> saved_count_{0};

  std::mutex mutex_;
  // The fields below, down to thread_, change under mutex_.
  std::condition_variable wake_;
  bool is_asked_ = false;
  bool is_stopping_ = false;
  bool has_reported_ = false;
  std::thread thread_;

  // Only for the thread.
  l1::ExtentImage image_;
  // Runs that are made flat share slabs: a mapping for each bucket could be too many.
  SlabAllocator slabs_;
  uint64_t seen_read_count_ = 0;
  uint64_t seen_record_count_ = 0;
  // Extents that the last root left waiting or unnamed.
  uint64_t left_count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_KEEPER_H_

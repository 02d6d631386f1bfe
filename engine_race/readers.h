// The readers of a store: the index and all that needs it, made by the first call that reads.
//
// A store that is only written to never pays for an index. The first read makes them all. After a
// failure the next call tries again.
//
// Store::Read does not wait for the whole index: a thread, the restorer, reads the buckets that it
// did not need, and begins a little later. All other reads wait for that thread. Another thread,
// the map reader, has file systems read the maps of blocks that the first Store::Read needs.
//
// Owner of all that it makes. Thread safety: every call from any thread, except for the destructor.
// Invariant: a reader that Ensure has given out stays until the destructor.
#ifndef ENGINE_RACE_READERS_H_
#define ENGINE_RACE_READERS_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/memory_budget.h"
#include "engine_race/memory_shares.h"
#include "engine_race/scan/iterator_pool.h"
#include "engine_race/scan/range_reader.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_pool.h"

namespace engine_race {

struct StoreStats;

class Readers {
 public:
  // Made together, in this order: each works with those before it.
  struct Set {
    Options options;  // with the back end that reads
    std::unique_ptr<MemoryBudget> budget;
    std::unique_ptr<MemoryShares> shares;  // of frames and of ranges
    // Of frames for values and of frames for blocks; null: one cache has both.
    std::unique_ptr<MemoryShares> frame_shares;
    std::unique_ptr<l1::FrameCache> frame_cache;  // null: there are no frames
    std::unique_ptr<l1::FrameCache> value_cache;  // null: values have no cache of their own
    std::unique_ptr<Index> index;
    std::unique_ptr<ValueFrames> frames;  // null: no value is kept in memory
    std::unique_ptr<PointReader> points;
    std::unique_ptr<ReadPool> pool;
    std::unique_ptr<RangeReader> ranges;
    std::unique_ptr<IteratorPool> iterators;

    // The cache that may have values: their own, or that of blocks. Null: there is none.
    l1::FrameCache* values() const {
      return (frame_shares == nullptr ? frame_cache : value_cache).get();
    }
  };

  // All outlive it. `stats` may be null: then nothing is counted.
  Readers(const Options& options, BucketLog* log, OpStats* stats = nullptr)
      : options_(options), log_(*log), stats_(stats) {}

  // Finish may not have been called. The restorer must not outlive the index, nor the map reader
  // the log.
  ~Readers() {
    JoinRestorer();
    JoinMapReader();
  }

  // *set: the readers. Every bucket of the index has been tried, so views may be taken. After a
  // failure the next call tries again.
  Status Ensure(Set** set) {
    // Acquire pairs with the release in Make: the readers are whole.
    *set = ready_.load(std::memory_order_acquire);
    if (*set == nullptr) ENGINE_RACE_RETURN_IF_ERROR(Make(set, Index::Opening::kWhole));
    JoinRestorer();
    return Status::Ok();
  }
  // Ensure for a read of the latest value of `key`. Buckets may still wait: no view may be taken.
  Status EnsureForRead(uint64_t key, Set** set) {
    // Acquire pairs with the release in Make.
    *set = ready_.load(std::memory_order_acquire);
    if (*set != nullptr) [[likely]] {
      return Status::Ok();
    }
    return Make(set, Index::Opening::kMayWait, &key);
  }
  // Of a store that follows a writer: see Store::Refresh.
  Status Refresh();
  // After an append: if the index has grown, which is once in many writes, makes others give memory
  // back.
  void MakeRoomForIndex() noexcept {
    // Acquire pairs with the release in Make.
    const Set* const made = ready_.load(std::memory_order_acquire);
    if (made != nullptr && made->shares->RestHasChanged()) [[unlikely]] {
      made->shares->Settle();
      made->index->CheckMemory();
    }
  }

  // False: the index refuses new keys, and no space for records would help.
  bool IndexHasRoom() const {
    // Acquire, as above.
    const Set* const made = ready_.load(std::memory_order_acquire);
    return made == nullptr || made->index->CheckRoom().ok();
  }

  // Waits for the reads that were posted; later ones are refused. Then writes the index, as the
  // options say. While no other call is under way.
  void Finish();
  // Writes the index after a Sync, if that is cheap.
  void SaveIndexAfterSync() noexcept;

  // Adds what the readers take and do, when there are any.
  void AddTo(StoreStats* stats) const;

 private:
  // `first_key`: the key of a Store::Read, or null.
  Status Make(Set** set, Index::Opening opening, const uint64_t* first_key = nullptr);
  uint64_t ReadCount() const;
  // Starts the thread that reads the buckets that wait.
  void StartRestorer(Set* set);
  void JoinRestorer() noexcept;
  void ReportUnsaved(const Status& saved) const noexcept;
  Status ChooseBackend(Options* reading) const;
  void StartMapReader(uint64_t first_key);
  void JoinMapReader() noexcept;
  void ReadMaps(uint32_t bucket) const;
  void MakeFrameCaches(Set* set) const;
  static void ShareFrames(Set* set);
  void MakeValueFrames(Set* set) const;
  // Of the files that are open now, for the kernel's table. Others are read without it.
  std::vector<int> ValueFileDescriptors() const;

  const Options& options_;
  BucketLog& log_;
  OpStats* const stats_;
  std::mutex make_mutex_;
  std::unique_ptr<Set> set_;  // under make_mutex_ until ready_ is set
  // Under make_mutex_ until the restorer is started, which joins it.
  std::thread map_reader_;
  std::mutex restorer_mutex_;
  std::thread restorer_;  // under restorer_mutex_
  std::atomic<bool> has_restorer_{false};
  std::mutex hurry_mutex_;
  std::condition_variable hurry_;
  bool is_hurried_ = false;  // a call waits for the restorer; under hurry_mutex_
  std::atomic<Set*> ready_{nullptr};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_READERS_H_

// The state that all buckets of an index share. That is their views, the epochs of their readers,
// counts of their memory, Paging, and which of them may hold records.
// It also lists the buckets that keep history for views, and sweeps history that no view needs.
//
// A write or a release of the oldest view only requests a sweep, which the keeper makes. A sweep
// goes over the listed buckets, part by part. It excludes the readers and writers of a bucket only
// while it exchanges the history of one part.
//
// Thread safety: every call from any thread, except Watch. One thread sweeps.
#ifndef ENGINE_RACE_INDEX_BUCKET_SHARED_H_
#define ENGINE_RACE_INDEX_BUCKET_SHARED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/placement.h"
#include "engine_race/index/byte_count.h"
#include "engine_race/index/held_buckets.h"
#include "engine_race/index/views.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/l1/limbo.h"

namespace engine_race {

class BucketIndex;
class Paging;

// A bucket's link in the list.
struct SweepLink {
  BucketIndex* bucket = nullptr;
  // Itself while the bucket is not listed. Under the list's mutex.
  SweepLink* next = this;

  bool is_listed() const { return next != this; }
};

class BucketShared : public ViewRegistry::Sweeper {
 public:
  // Counts the work of merges and sweeps so far, for the statistics.
  struct Work {
    uint64_t merged_records = 0;  // keys and undo records that merges have written
    uint64_t swept_records = 0;   // undo records that sweeps have looked at
  };

  // `memory` places what merges take. `frames`, which may be null, have the epochs of readers. Both
  // outlive this object. May throw std::bad_alloc.
  explicit BucketShared(const Placement& memory, l1::FrameCache* frames = nullptr)
      : memory_(memory),
        own_epochs_(frames == nullptr ? std::make_unique<l1::EpochManager>() : nullptr),
        epochs_(frames == nullptr ? *own_epochs_ : frames->epochs()),
        limbo_(epochs_) {}
  BucketShared(const BucketShared&) = delete;
  BucketShared& operator=(const BucketShared&) = delete;
  // The registry must be closed before a bucket or this object is destroyed.
  ~BucketShared() = default;

  // To be called before anything else.
  void Watch(ViewRegistry* views) {
    views_ = views;
    views->set_sweeper(this);
  }

  // The state that buckets share to page; null: they never page, and requests wake no keeper. To be
  // called before anything else, too.
  void set_paging(Paging* paging) { paging_ = paging; }
  Paging* paging() const { return paging_; }
  // The first one of all buckets, which lie in one array; null: held() stays empty. To be called
  // before anything else, too.
  void set_first_bucket(const BucketIndex* bucket) { first_bucket_ = bucket; }
  const BucketIndex* first_bucket() const { return first_bucket_; }
  // Of the buckets by number.
  HeldBuckets& held() { return held_; }
  const HeldBuckets& held() const { return held_; }

  const Placement& memory() const { return memory_; }

  // Of readers of frames and of published runs.
  l1::EpochManager& epochs() { return epochs_; }
  // Of runs, and of what readers find them by.
  l1::Limbo& limbo() { return limbo_; }

  ViewRegistry& views() const { return *views_; }
  uint64_t bytes() const {
    // Relaxed: a statistic.
    return bytes_.load(std::memory_order_relaxed);
  }
  Work work() const;

  // Counts that the history of a bucket takes `now` bytes and took `before` bytes.
  void CountBytes(size_t now, size_t before) noexcept {
    // Relaxed: a statistic. The difference wraps around when it is negative.
    bytes_.fetch_add(uint64_t{now} - before, std::memory_order_relaxed);
  }
  void CountMerge(size_t record_count) noexcept {
    // Relaxed: a statistic.
    merged_records_.fetch_add(record_count, std::memory_order_relaxed);
  }
  // The memory of the parts without their histories.
  ByteCount& part_bytes() { return part_bytes_; }
  // Lists the link's bucket, which has history.
  void Add(SweepLink* link) noexcept;

  // Notes the request, and wakes the keeper if there is one.
  void RequestSweep() noexcept override;
  bool sweep_is_due() const { return sweep_is_due_.load(); }
  // Makes the sweep that was requested, if one was. Asks must_stop() before each part and ends when
  // that is true: no sweep may follow then. The caller holds no bucket's lock.
  void Sweep(FunctionRef<bool()> must_stop) noexcept;

 private:
  // The next bucket of *left, off the list; null at its end.
  SweepLink* Unlist(SweepLink** left) noexcept;

  const Placement& memory_;
  const std::unique_ptr<l1::EpochManager> own_epochs_;  // null: the frames have them
  l1::EpochManager& epochs_;
  l1::Limbo limbo_;
  ViewRegistry* views_ = nullptr;
  Paging* paging_ = nullptr;
  const BucketIndex* first_bucket_ = nullptr;
  HeldBuckets held_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> merged_records_{0};
  std::atomic<uint64_t> swept_records_{0};
  ByteCount part_bytes_;
  std::atomic<bool> sweep_is_due_{false};
  std::mutex mutex_;
  SweepLink* first_ = nullptr;  // under mutex_, and so are all links
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_SHARED_H_

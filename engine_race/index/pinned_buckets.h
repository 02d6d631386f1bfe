// The buckets of an index that keep history for views, and the memory that it takes; beside it the
// memory of all that the buckets of the index keep otherwise.
//
// The registry of views calls Sweep when the oldest view has gone. It excludes neither readers nor
// writers but for the moments in which a bucket's history is exchanged.
//
// Thread safety: everything from any thread; sweeps one at a time, which the registry sees to.
#ifndef ENGINE_RACE_INDEX_PINNED_BUCKETS_H_
#define ENGINE_RACE_INDEX_PINNED_BUCKETS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "engine_race/index/byte_count.h"
#include "engine_race/index/views.h"

namespace engine_race {

class BucketIndex;

// A bucket's place in the list.
struct PinnedLink {
  BucketIndex* bucket = nullptr;
  PinnedLink* next = nullptr;  // under the list's mutex
  bool is_listed = false;      // likewise
};

class PinnedBuckets : public ViewRegistry::Sweeper {
 public:
  // Before anything else. The registry is closed before a bucket goes.
  void Watch(ViewRegistry* views) {
    views_ = views;
    views->set_sweeper(this);
  }

  ViewRegistry& views() const { return *views_; }
  uint64_t bytes() const {
    // Relaxed: a statistic.
    return bytes_.load(std::memory_order_relaxed);
  }

  // The history of some bucket takes so much memory now, and took so much before.
  void CountBytes(size_t now, size_t before) noexcept {
    // Relaxed: as above. Wraps around when it shrinks.
    bytes_.fetch_add(uint64_t{now} - before, std::memory_order_relaxed);
  }
  // Of everything but history.
  ByteCount& part_bytes() { return part_bytes_; }
  // The link's bucket has history.
  void Add(PinnedLink* link) noexcept;
  void Sweep() noexcept override;

 private:
  ViewRegistry* views_ = nullptr;
  std::atomic<uint64_t> bytes_{0};
  ByteCount part_bytes_;
  std::mutex mutex_;
  PinnedLink* first_ = nullptr;  // under mutex_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PINNED_BUCKETS_H_

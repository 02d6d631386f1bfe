// The members of Index: its buckets, and all that they share. For the room's own files.
#ifndef ENGINE_RACE_INDEX_INDEX_IMPL_H_
#define ENGINE_RACE_INDEX_INDEX_IMPL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <span>
#include <utility>
#include <vector>

#include "engine_race/base/spares.h"
#include "engine_race/index/bucket_builder.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/bucket_shared.h"
#include "engine_race/index/index.h"
#include "engine_race/index/index_keeper.h"
#include "engine_race/index/index_restore.h"
#include "engine_race/index/paging.h"
#include "engine_race/index/root_writer.h"
#include "engine_race/index/unread_buckets.h"

namespace engine_race {

struct Index::Impl {
  Impl(BucketLog* l, const Options& o, l1::FrameCache* f)
      : log(l),
        options(o),
        geometry(l->geometry()),
        frames(f),
        buckets(std::make_unique<BucketIndex[]>(geometry.bucket_count)) {}

  uint32_t BucketOf(uint64_t key) const { return geometry.BucketOf(key); }
  // The slot of `key`, where it is quickly found without a lock. From outside the epoch.
  [[gnu::always_inline]] bool FindNear(uint64_t key, const RunWindow& window, ValueRef* ref) const {
    const l1::EpochManager::Guard guard(shared->epochs());
    const PublishedRuns* const runs = buckets[BucketOf(key)].published();
    return runs != nullptr && runs->FindNear(key, window, ref) && ref->leads_to_slot();
  }
  std::span<BucketIndex> all() const { return {buckets.get(), geometry.bucket_count}; }

  BucketLog* const log;
  const Options options;
  const Geometry geometry;
  l1::FrameCache* const frames;  // may be null
  std::unique_ptr<BucketShared> shared;
  // Before the buckets, whose runs it takes back.
  std::unique_ptr<Paging> paging;
  const std::unique_ptr<BucketIndex[]> buckets;
  UnreadBuckets unread;
  // How many buckets are loaded at once: each takes memory for its tail, or for its keys.
  static constexpr uint32_t kLoads = 16;
  std::counting_semaphore<> load_permits{kLoads};
  std::mutex giant_mutex;  // held while a giant is loaded
  // Restores or builds waiting buckets, with a root and a context of its own.
  struct WaitingRestore {
    WaitingRestore(std::unique_ptr<BuildContext> c, Paging* paging, l1::IndexRoot r)
        : context(std::move(c)), root(std::move(r)), restore(context.get(), paging, &root) {}
    // Builds a bucket that cannot be restored, with a builder that is kept for the next one.
    Status Build(uint32_t bucket);

    const std::unique_ptr<BuildContext> context;
    l1::IndexRoot root;
    IndexRestore restore;
    uint32_t thread_count = 0;  // of RestoreRest
    // After RestoreRest they are kept in a store that follows a writer alone.
    Spares<BucketBuilder> builders;
  };
  Status LetBucketsWait(WaitingRestore* waiting, l1::IndexRoot* root);
  // Null unless Open let buckets wait. Stays after RestoreRest.
  std::unique_ptr<WaitingRestore> waiting_restore;
  // Of walks that read ahead.
  const RunSlices::Permits ahead_permits =
      std::make_shared<std::counting_semaphore<>>(RunSlices::kMaxAhead);
  std::mutex lose_mutex;
  // Gives how many reads the store has counted.
  std::function<uint64_t()> reads;
  std::unique_ptr<RootWriter> roots;
  // Null until StartKeeper. Acquire: pairs with the release there.
  IndexKeeper* ReadyKeeper() const { return ready_keeper.load(std::memory_order_acquire); }

  // Last: its thread works on all of them. Null until every bucket has been tried. A root that was
  // written earlier would not name the extents of waiting buckets.
  std::unique_ptr<IndexKeeper> keeper;
  std::atomic<IndexKeeper*> ready_keeper{nullptr};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_IMPL_H_

// The state that the buckets of one index share in order to page. It has the frames of blocks, the
// extents on disk, the limit of memory, and the requests to the keeper.
//
// An index that fits its memory is kept flat. One that does not is paged as a whole: its runs lie
// in extents, and frames keep the blocks that are used.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_INDEX_PAGING_H_
#define ENGINE_RACE_INDEX_PAGING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/block_frames.h"
#include "engine_race/index/byte_count.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/index/paging_faults.h"
#include "engine_race/index/part.h"
#include "engine_race/l1/extent_image.h"
#include "engine_race/l1/extent_store.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/l1/limbo.h"

namespace engine_race {

class BucketIndex;

class Paging {
 public:
  // The bytes that the index may take in memory, as of now.
  using LimitFn = std::function<uint64_t()>;

  // A flat index may take `max_flat_bytes` at most. `cache` may be null. `part_bytes` counts the
  // memory of all parts. `limbo` takes runs. All three outlive it.
  Paging(l1::FrameCache* cache, std::unique_ptr<l1::ExtentStore> store, LimitFn limit,
         uint64_t max_flat_bytes, const ByteCount& part_bytes, l1::Limbo& limbo)
      : blocks_(cache),
        store_(std::move(store)),
        limit_(std::move(limit)),
        max_flat_bytes_(max_flat_bytes),
        part_bytes_(part_bytes),
        limbo_(limbo) {}

  BlockFrames& blocks() { return blocks_; }
  l1::ExtentStore& store() { return *store_; }
  l1::Limbo& limbo() { return limbo_; }  // of runs
  PagingFaults& faults() { return faults_; }
  bool may_write() const { return store_->writable(); }  // false: the store is read_only

  // Memory.

  // Whether the index would not fit if every run were flat. The keeper then pages all flat runs.
  bool MustPage() const { return FlatBytes() > FlatLimit(); }
  // Whether an index of `record_count` records would not fit.
  bool WouldPage(uint64_t record_count) const {
    return record_count * kFlatBytesPerRecord > FlatLimit();
  }
  // Whether all runs would fit if they were flat, with an eighth to spare for deltas. Without it an
  // index at its limit would be paged and made flat again and again.
  bool MayFlatten() const { return FlatBytes() + FlatBytes() / 8 <= FlatLimit(); }
  // Whether there is something to be paged now.
  bool HasRunsToPage() const;
  // When work is to be tried again that failed or that a rest puts off; nothing: there is none.
  std::optional<PagingFaults::Clock::time_point> NextTry() const;
  // Ok unless extents cannot be written and the index takes half as much again as it may: kFull.
  Status CheckRoom() const;
  // Whether what cannot be paged, which is mostly deltas, takes more than the index may.
  bool HasLargeDeltas() const;
  // Says that every delta that could be merged was. If the index still takes more than it may,
  // other things than deltas do: HasLargeDeltas is false until there is an eighth more.
  void NoteMerged() noexcept {
    merged_bytes_.store(part_bytes_.bytes(), std::memory_order_relaxed);
  }
  // Lowers the mark of NoteMerged to what the index takes now. For the thread that sets it.
  void LowerMerged() noexcept {
    if (part_bytes_.bytes() < merged_bytes_.load(std::memory_order_relaxed)) NoteMerged();
  }
  bool has_flat_runs() const { return flat_run_count_.load(std::memory_order_relaxed) > 0; }
  bool has_paged_runs() const { return paged_record_count_.load(std::memory_order_relaxed) > 0; }
  // Counts runs that are there now and were there before. The differences may wrap around. Relaxed:
  // decisions are taken repeatedly.
  void CountRuns(const RunCounts& now, const RunCounts& before) noexcept {
    flat_run_count_.fetch_add(now.flat_run_count - before.flat_run_count,
                              std::memory_order_relaxed);
    paged_record_count_.fetch_add(now.paged_record_count - before.paged_record_count,
                                  std::memory_order_relaxed);
  }

  // Evicts frames that have no room any more, because a bucket took memory.
  void FitFrames() noexcept { blocks_.FitLimit(); }

  // Extents.

  // Writes a run to an extent and makes a run for that. `births`: see Part. kOutOfMemory, and what
  // the store's Write says. kNotSupported unless may_write().
  Status Write(const SortedRun& flat, const FrameSlots& frames, uint64_t births,
               l1::ExtentImage* image, PagedRunPtr* run);
  // Writes the runs of parts that no bucket has yet, unless the index fits its memory with them and
  // `other_bytes` more. Runs that are not written stay flat: after a failure, and during a pause.
  // *image is made when it is first needed.
  Status PageFresh(std::span<const std::unique_ptr<Part>> parts, uint64_t other_bytes,
                   l1::ExtentImage* image);
  // A run for an extent that the root names. `held`: see PagedRun. kOutOfMemory.
  Status AdoptNamed(const format::IndexExtent& extent, std::shared_ptr<const HeldSlots> held,
                    PagedRunPtr* run);
  // Discard for an extent that the root names and that no run was made for.
  void DiscardNamed(const format::IndexExtent& extent) noexcept {
    FreeUnlessNamed({extent.generation, extent.place});
  }
  // Evicts the frames of a run that no part has any more. Its extent is used again as soon as no
  // root on disk names it.
  void Discard(std::unique_ptr<PagedRun> run) noexcept;
  enum class CommitEnd {
    kStored,   // the new root is the one on disk
    kNotMade,  // the root on disk says the same as the new one would
    kFailed,   // the root on disk is the one before
    kInDoubt,  // it is either of them; no place is used again until a root is stored
  };
  // From BeginCommit until EndCommit no place is used again, because the next root may name its
  // extent. One thread at a time.
  void BeginCommit() noexcept;
  void EndCommit(CommitEnd end, const l1::IndexRoot& root) noexcept;
  // Whether it is not known which root is on disk.
  bool is_in_doubt() const;
  // How many extents wait because only the root on disk names them.
  uint64_t waiting_count() const;
  // How many extents were adopted since the last commit began that did not fail.
  uint64_t unnamed_count() const { return unnamed_count_.load(std::memory_order_relaxed); }

  // How many writers may merge parts for themselves at the same time. Each takes some MiB.
  std::counting_semaphore<>& writer_merges() { return writer_merges_; }

  // Requests to the keeper.

  enum class Work { kMerge, kFlatten };
  struct Request {
    BucketIndex* bucket;
    Work work;
    bool operator==(const Request&) const = default;
  };
  // Asks the keeper for work on a bucket, unless it was asked before. A request for which memory is
  // refused is dropped: a later write or miss asks again.
  void Ask(BucketIndex* bucket, Work work) noexcept;
  bool has_requests() const;
  std::vector<Request> TakeRequests();        // all
  void Wake() noexcept;                       // the keeper, if there is one
  void set_wake(std::function<void()> wake);  // wakes the keeper, and does not wait

 private:
  static constexpr size_t kMaxRequests = 4096;
  static constexpr ptrdiff_t kWriterMerges = 4;
  static constexpr uint64_t kFlatBytesPerRecord = SortedRun::kBytesPerRecord;
  uint64_t FlatLimit() const;
  // The memory of the index if every run were flat.
  uint64_t FlatBytes() const {
    return part_bytes_.bytes() +
           paged_record_count_.load(std::memory_order_relaxed) * kFlatBytesPerRecord;
  }
  bool IsNamed(const l1::ExtentId& id) const;  // under mutex_
  // Has the place used again, now or once no root on disk names it.
  void FreeUnlessNamed(const l1::ExtentId& id) noexcept;

  BlockFrames blocks_;
  const std::unique_ptr<l1::ExtentStore> store_;
  const LimitFn limit_;
  const uint64_t max_flat_bytes_;
  const ByteCount& part_bytes_;
  l1::Limbo& limbo_;
  PagingFaults faults_;
  std::atomic<uint64_t> paged_record_count_{0};
  std::atomic<uint64_t> flat_run_count_{0};
  // Relaxed: a reason to write a root, and no more.
  std::atomic<uint64_t> unnamed_count_{0};
  std::atomic<uint64_t> merged_bytes_{0};
  std::counting_semaphore<> writer_merges_{kWriterMerges};

  mutable std::mutex mutex_;
  // Under mutex_: the extents that the root on disk names, by place, with their generations.
  std::unordered_map<uint32_t, uint64_t> named_;
  bool is_committing_ = false;
  bool is_in_doubt_ = false;
  uint64_t begun_count_ = 0;  // unnamed_count_ when the commit began
  // Extents that only the root on disk may still name.
  std::vector<l1::ExtentId> waiting_;
  std::vector<Request> requests_;
  std::function<void()> wake_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PAGING_H_

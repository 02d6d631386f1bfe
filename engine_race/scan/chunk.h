// A chunk: the records of a run of keys as a view shows them, with their values in buffers.
//
// ChunkBuilder fills it from the index, ChunkLoader reads its values. The coordinator's chunks are
// of the latest state and serve all scans that pass over them. ChunkReader and the walks of copies
// have chunks of their own.
//
// A shared chunk is handed out while its reads are still under way; a visitor waits until it is
// ready. The visitors themselves check the values and copy the staged ones, batch by batch. Each
// batch is done once, by the visitor that comes to it first. A visitor that finds its batch in work
// does one further ahead. So the checking is spread over the threads that need it, and the
// coordinator's time goes to the device alone.
//
// Thread safety: as said at each group of members. Owned by ChunkCache, or by the one that uses it
// alone.
// Invariant: a chunk becomes ready once, after its last read. Its positions do not change from then
// on, except in batches that a visitor has in work.
#ifndef ENGINE_RACE_SCAN_CHUNK_H_
#define ENGINE_RACE_SCAN_CHUNK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/scan/frame_filler.h"
#include "engine_race/scan/load_plan.h"
#include "engine_race/scan/scan_context.h"

namespace engine_race {

class Chunk {
 public:
  // Records that are checked together, at most.
  static constexpr uint32_t kBatchRecords = 64;

  // Empties it for another use; buffers keep their capacity. Its buffers must have been given back.
  void Recycle();
  // Drops all entries but the first or the last `count`, which are not 0. The chunk then covers the
  // keys of those alone. Before it is planned.
  void KeepFirst(uint32_t count);
  void KeepLast(uint32_t count);
  // Lays the plan, which was made for `layout`, out over the given buffers. Number i of them lies
  // at base + i * layout.buffer_bytes(). Makes the chunk ready for visitors, who compare values
  // with their checksums if `verify` is set. Values that were read from the log are given to
  // `filler` unless it is null. std::bad_alloc leaves the chunk unusable but recyclable.
  void Place(const BufferLayout& layout, char* base, std::span<const uint32_t> in_buffers,
             bool verify, FrameFiller* filler = nullptr);

  // The first entry with a key of at least `key`.
  uint32_t LowerBound(uint64_t key) const;
  const Segment& SegmentOfEntry(uint32_t entry) const;
  std::span<const IndexEntry> EntriesOf(size_t segment) const;
  // The entry's value, or null when it has none: then ErrorOf says why. Its batch must have been
  // prepared.
  const char* Value(uint32_t entry) const {
    ENGINE_RACE_ASSERT(entry < plan.positions.size());
    const uint32_t position = plan.positions[entry];
    return position >= kCorruptPosition ? nullptr : base_ + layout_.OffsetOf(position);
  }
  // Where a placed read puts its blocks.
  char* DataOf(const PlannedRead& read) const {
    return base_ + layout_.OffsetOf(read.first_position);
  }
  // Records that are checked together, from a multiple of that on.
  uint32_t batch_records() const { return uint32_t{1} << batch_shift_; }
  // Fetches the first and the last line of its value into the cache. Inlined always: a call of a
  // function that only prefetches has no effect that GCC knows of, and GCC leaves it out.
  [[gnu::always_inline]] void FetchEnds(uint32_t entry) const {
    const char* value = base_ + layout_.OffsetOf(plan.positions[entry]);
    // Of an entry without a value this is somewhere else, which does no harm.
    __builtin_prefetch(value);
    __builtin_prefetch(value + layout_.value_bytes() - 1);
  }
  Status ErrorOf(const ScanContext& context, uint32_t entry);
  // Prepares the entries [begin, end) and calls visit(key, value) for each, until it returns false.
  // Returns `end`, the entry after the last one visited, or the first one without a value. The
  // chunk is ready, and pinned if it is shared.
  template <typename Visit>
  uint32_t VisitEntries(const ScanContext& context, uint32_t begin, uint32_t end,
                        const Visit& visit);

  void WaitUntilReady() const;
  void SetReady();
  bool ready() const { return state_.load(std::memory_order_acquire) != 0; }  // with SetReady

  // Returns once the batch of `entry` has been checked. The chunk is ready, and pinned if it is
  // shared.
  void Prepare(const ScanContext& context, uint32_t entry);

  // Marks the chunk as stale if slots of it may have been given to other records while they were
  // read. Before SetReady.
  void NoteReuse(const ScanContext& context);
  // Values that were read may be those of other records. Scans read such keys for themselves.
  bool stale() const { return stale_.load(std::memory_order_relaxed); }

  // Marks the values of a placed read that ended after `read_bytes`. None if these have all its
  // slots. Before SetReady.
  void FailRead(const PlannedRead& read, uint64_t read_bytes, const Status& status);

  uint64_t memory_bytes() const;

  // Set before the chunk is shown to anybody, constant from then on.

  // Covers the keys [first_key, last_key] of a view of `version`.
  uint64_t first_key = 0;
  uint64_t last_key = 0;
  uint64_t version = kLatestVersion;
  std::vector<IndexEntry> entries;
  std::vector<Segment> segments;
  LoadPlan plan;
  std::vector<uint32_t> buffers;  // of the cache's pool; none in a chunk of one scan
  // Not ok: the index could not tell what there is from error_key on.
  Status collect_status;
  uint64_t error_key = 0;

  // Guarded by the coordinator's mutex. Unused in a chunk of one scan.

  // The ticket at which the index was asked, or last confirmed the same answer.
  uint64_t cut = 0;
  // By each scan that is in it, and by the coordinator until it has been read.
  uint32_t pins = 0;
  bool cached = false;
  // Has a bad value: not for further scans.
  bool doomed = false;
  // The memory that the cache has counted for it.
  uint64_t counted_bytes = 0;

  // Set by the coordinator, likewise: a visitor leaves it after the record at hand and asks again.
  std::atomic<bool> recalled{false};

  // The loader's alone.

  uint32_t reads_left = 0;
  bool read_failed = false;

 private:
  enum BatchState : uint32_t { kUntouched, kInWork, kPrepared };

  // How many records ahead of a visit the ends of its value are fetched. Without that a visitor
  // misses the caches at both ends of each value. With more, the fetched lines evict each other
  // from the first cache: the ends of all pages share one set.
  static constexpr uint32_t kFetchAhead = 6;

  bool TryPrepare(const ScanContext& context, uint32_t batch);
  void AdmitToFrames(uint32_t begin, uint64_t records);
  void Prefetch(uint32_t entry) const;
  bool Matches(uint32_t entry) const;
  void PrepareEntry(const ScanContext& context, uint32_t entry);
  void PrepareSlowly(const ScanContext& context, uint32_t entry);
  void FailEntries(size_t begin, size_t end, const Status& status);
  void NoteReadError(const Status& status);

  BufferLayout layout_;
  char* base_ = nullptr;
  // 0 while reads are under way.
  std::atomic<uint32_t> state_{0};
  // Relaxed: SetReady and the states of batches show what it says of.
  std::atomic<bool> stale_{false};
  bool needs_preparing_ = false;
  bool verify_ = false;
  FrameFiller* filler_ = nullptr;
  uint32_t batch_shift_ = 0;
  uint32_t batch_count_ = 0;
  uint32_t batch_capacity_ = 0;
  std::unique_ptr<std::atomic<uint32_t>[]> batches_;
  std::mutex error_mutex_;
  Status read_status_;  // the first failed read's; guarded by error_mutex_
};

template <typename Visit>
uint32_t Chunk::VisitEntries(const ScanContext& context, uint32_t begin, uint32_t end,
                             const Visit& visit) {
  const uint32_t fetch_ahead = std::min(kFetchAhead, batch_records());
  if (begin < end) Prepare(context, begin);
  for (uint32_t i = begin; i < end;) {
    const uint32_t batch_end = std::min(end, ((i >> batch_shift_) + 1) << batch_shift_);
    // One batch ahead of the visits, so that the values that they fetch ahead are prepared.
    if (batch_end < end) Prepare(context, batch_end);
    for (; i < batch_end; ++i) {
      if (i + fetch_ahead < end) FetchEnds(i + fetch_ahead);
      const char* const value = Value(i);
      if (value == nullptr) [[unlikely]] {
        return i;
      }
      if (!visit(entries[i].key, value)) [[unlikely]] {
        return i + 1;
      }
    }
  }
  return end;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_H_

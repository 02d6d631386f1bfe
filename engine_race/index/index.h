// The index: from each live key to the slot of its value. The room's front page.
//
// Each bucket is a row of parts in key order. A part is a sorted run that never changes, flat in
// memory or on disk, and a small sorted delta of newer writes.
//
// The first read or range opens the index from its extents on disk. It builds the rest from the key
// logs, in parallel. Buckets wait until a read needs them, or a thread in the background reads
// them: see Opening. From then on the log reports every new record. Readers of a bucket share its
// lock only with the writers of that bucket. They take no lock until something is written to the
// bucket, and none again once the keeper has merged it.
//
// An index that does not fit its memory is paged: see paging.h. A lookup may then need blocks from
// disk. The calls with a BlockLookup never wait; they say which block they need.
//
// Thread safety: every const call from any thread, beside the log's appends.
#ifndef ENGINE_RACE_INDEX_INDEX_H_
#define ENGINE_RACE_INDEX_INDEX_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/block_lookup.h"
#include "engine_race/index/run_slices.h"
#include "engine_race/index/run_window.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/index/views.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class Index : public AppendListener {
 public:
  // Opens the index from its extents on disk, and builds the buckets that they do not cover from
  // their key logs. From then on the log reports every append. The index also has the records that
  // were appended meanwhile. The log must outlive the index. After a failure nothing stays
  // registered with the log.
  //
  // A bucket whose key log cannot be read does not fail the build; it is left out. Each call below
  // that needs the bucket tries to read it again and answers kIOError while that fails: see
  // unread_buckets.h.
  //
  // `frames` may be null: then there are no frames. It outlives the index.
  //
  // `limit` gives the bytes that the index may take in memory as of now; without it there is none.
  // A flat index takes at most Options::index_memory_bytes.
  //
  // `reads` gives how many reads the store has counted; null: none. The index is written while few
  // are added.
  //
  // kMayWait: Build reads no bucket. Each waits: the first call that needs it, or RestoreRest,
  // restores it, or builds it where it cannot be restored. RestoreRest must end before a view is
  // taken. An index without records is whole in any case, unless its store follows a writer.
  enum class Opening { kWhole, kMayWait };
  static Status Build(BucketLog* log, const Options& options, std::unique_ptr<Index>* index,
                      l1::FrameCache* frames = nullptr, std::function<uint64_t()> limit = nullptr,
                      Opening opening = Opening::kWhole, std::function<uint64_t()> reads = nullptr);
  // Whether Build has left buckets for RestoreRest. Does not change afterwards.
  bool needs_restore_rest() const;
  // Reads the buckets that wait, beside any other call but Save and Close. To be called once, if
  // needs_restore_rest(). Buckets that cannot be read are left out, as in Build.
  void RestoreRest() noexcept;
  ~Index() override;

  // The newest record of `key`. kNotFound when there is none or it is a tombstone. kCorruption when
  // a damaged entry of the bucket may have been newer, or the bucket's counts are damaged.
  // kIncomplete when a block must be read first: see BlockLookup.
  // `window` is the key's own, from Prefetch. With a version it finds the record that a view of it
  // shows. Like all calls with a version it may also answer kIOError. That is so if the key's
  // bucket was read after the view was taken, and has changed meanwhile.
  Status Find(uint64_t key, ValueRef* ref, BlockLookup* lookup, const RunWindow& window = {},
              uint64_t version = kLatestVersion) const;

  // Where the block lies that the lookup wants, and the buffer of format::kIndexBlockBytes, aligned
  // to kIoAlignment, that it is to be read into.
  io::ReadRequest RequestFor(const BlockLookup& lookup, char* buffer) const;
  // Takes the block that was read for the lookup of `key`, and offers it to the frames. Without
  // `is_read`, or if the block is not whole, it reads the block, waiting for it. The buffer is
  // needed as long as the lookup. If the block cannot be read, its bucket is read from the key log
  // by the call that repeats the lookup. Not from inside the epoch. kOutOfMemory: the lookup is to
  // be given up.
  Status Accept(uint64_t key, char* buffer, bool is_read, BlockLookup* lookup) const noexcept;

  // Calls find(&lookup) until no block is wanted any more, and reads the blocks, waiting for each.
  template <typename FindFn>
  Status Await(uint64_t key, const FindFn& find) const {
    BlockLookup lookup;
    Status status = find(&lookup);
    if (status.code() != Code::kIncomplete) [[likely]] {
      return status;
    }
    return AwaitBlocks(key, &lookup, [&] { return find(&lookup); });
  }
  Status Find(uint64_t key, ValueRef* ref, uint64_t version = kLatestVersion) const {
    return Await(key, [&](BlockLookup* lookup) { return Find(key, ref, lookup, {}, version); });
  }

  // Appends the records of `bucket` that a view of `version` shows with keys in [first_key,
  // last_key] to *entries, in ascending order. Stops when *entries holds max_entries. *complete is
  // false when it stopped there and keys may be left. kCorruption for a damaged bucket.
  // `slices` keeps stretches of runs between the calls of one walk. It may be null.
  Status Collect(uint32_t bucket, uint64_t first_key, uint64_t last_key, size_t max_entries,
                 std::vector<IndexEntry>* entries, bool* complete,
                 uint64_t version = kLatestVersion, RunSlices* slices = nullptr) const;
  // Has `ahead` read the paged runs that a walk over [first_key, last_key] by Collect comes to
  // first. A run that is merged meanwhile is read again by the walk.
  void ReadAhead(uint64_t first_key, uint64_t last_key, RunsAhead* ahead) const noexcept;

  // The lowest keys that a view of `version` shows in [first_key, last_key], over all buckets:
  // *count of them, ascending, in `keys`. There are fewer than keys.size() when no more are there,
  // or when a damaged bucket follows. kCorruption when a damaged bucket comes first.
  // `ahead` comes from TakeAhead and belongs to the walk that makes this call. It may be null.
  Status FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                   std::span<uint64_t> keys, size_t* count, RunSlices* ahead = nullptr) const;
  // The highest keys of the range instead of the lowest, also ascending and from the beginning of
  // `keys`.
  Status LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version, std::span<uint64_t> keys,
                  size_t* count, RunSlices* ahead = nullptr) const;
  // The memory with which a long walk over keys reads ahead in paged runs. Null if there are none,
  // if RunSlices::kMaxAhead walks do so already, or if memory is refused. May outlive the index.
  std::unique_ptr<RunSlices> TakeAhead() const noexcept;

  // The first bucket from `bucket` on that may hold a record which a view shows, or a number above
  // those of all buckets. FirstKeys, LastKeys and Collect find nothing in the buckets before it,
  // and do not fail.
  uint32_t NextHeld(uint32_t bucket) const noexcept;

  // Estimates how many live records of `bucket` have keys in [first_key, last_key].
  uint64_t EstimateCount(uint32_t bucket, uint64_t first_key, uint64_t last_key) const;

  // Frames. A reference may lead to a frame instead of a slot. Every call above gives slots.

  // Says where the owner of the frames notes the slot of each frame's value. To be called once,
  // before the calls below. The array is needed until no word leads to a frame. The owner notes a
  // slot with release order while no word leads to the frame: after Unswizzle and before Swizzle.
  // The index notes another one for a frame whose value is moved in the log.
  void SetFrameSlots(std::atomic<uint32_t>* slots);

  // Find, except that it gives a frame where there is one. The caller must be inside epochs(). It
  // enters by a sequentially consistent change, which the evictor looks at after Unswizzle in the
  // same order. So no reader that enters later finds the frame, even if its record has been
  // superseded meanwhile. It does not read a bucket that was left out. A caller that gets kIOError
  // leaves the epoch, calls Bring, and tries again, max_loads times at most. A bucket that was read
  // again may be paged, and its extent lost.
  static constexpr int kMaxLoads = 3;
  int max_loads() const;
  Status FindHot(uint64_t key, ValueRef* ref, BlockLookup* lookup, const RunWindow& window = {},
                 uint64_t version = kLatestVersion) const;
  // Fetches into the caches what lookups of these keys read in flat runs, and in blocks that are in
  // frames, a level at a time. Sets windows[i] for keys[i]. Lookups that follow at once then wait
  // for memory together. There are at least as many windows as keys. A window may be used as long
  // as the index lives; lookups check what it leads to. From outside the epoch.
  void Prefetch(std::span<const uint64_t> keys, std::span<RunWindow> windows) const;
  // Restores or builds the bucket if it is not in the index: it was left out, waits, or was lost.
  // Ok when it is in the index.
  Status Bring(uint32_t bucket) const;

  // A frame holds the value of one record and is found through at most one word of the index. When
  // its record is superseded or its key deleted, the frame is an orphan. Views may still find an
  // orphan. The index does not report that a frame becomes an orphan; the calls below answer it.

  // Makes the newest record of `key` lead to `frame`, if that record still is `ref`, which is not
  // hot. The frame must be filled, and no word may lead to it. False if the record has changed, or
  // for a damaged bucket.
  bool Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept;
  // Makes the word that leads to `frame` lead to its slot again. kHeated: nothing was done, because
  // only a cooling record was to be evicted and a reader has heated it. kOrphaned: the frame was an
  // orphan, whether it was cooling or not.
  enum class Unswizzled { kDone, kHeated, kOrphaned };
  Unswizzled Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept;
  // Sets or clears the cooling bit of the record of `key` that leads to `frame`. False when the
  // frame is an orphan, which gets no bit and can be evicted at once.
  bool Cool(uint64_t key, uint32_t frame) noexcept;
  bool Heat(uint64_t key, uint32_t frame) noexcept;

  // The memory of the index. Counted where it changes, so a call costs two loads.
  uint64_t memory_bytes() const noexcept;
  // memory_bytes() by a walk that locks one bucket after another. Tests compare both while nothing
  // changes.
  uint64_t WalkMemoryBytes() const;
  // The part of memory_bytes() for superseded records that views may show; 0 without views. Deltas
  // may hold more of them, in memory that they have anyway.
  uint64_t pinned_bytes() const;
  // The frames that Build was given; null if there are none.
  l1::FrameCache* frames() const;
  // Those of the frames, or its own ones without frames.
  l1::EpochManager& epochs() const;
  // The registry of the views of this index. It may outlive the index.
  ViewRegistry& views() const;
  // Whether a bucket was read again since a view of that version was taken, and has changed since.
  // Reads of it at the view are kIOError. A new view shows it.
  bool HidesFrom(uint64_t version) const;

  // The index on disk.

  // Writes runs that are not on disk, at most `max_bytes`, and a root. kFull, kIOError,
  // kOutOfMemory.
  Status Save(uint64_t max_bytes);
  // See IndexKeeper. Does nothing before the keeper has started.
  Status SaveIfCheap(uint64_t max_bytes);
  // Ends the work of other threads, and saves. 0 bytes: saves nothing. After RestoreRest if buckets
  // waited, and while no other call is made.
  Status Close(uint64_t max_bytes);
  // Has runs paged, or deltas merged, by another thread if the index takes more memory than it may.
  // A few loads.
  void CheckMemory() noexcept;
  // The bytes of extents that were written by this opening, and that are in use.
  uint64_t written_bytes() const;
  uint64_t disk_bytes() const;

  // The calls of AppendListener.
  Status CheckRoom() override;
  Status Prepare(uint32_t bucket) override;
  Status PrepareMany(uint32_t bucket, uint32_t count, KeyFn key_of) override;
  void BeginBatch() noexcept override;
  void EndBatch() noexcept override;
  void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept override;
  void OnMove(uint32_t bucket, const KeyRecord& record) noexcept override;
  void OnDetach(uint32_t bucket) noexcept override;
  void OnReuse(uint32_t bucket) noexcept override;
  uint64_t CurrentVersion() const noexcept override;
  bool HasViewIn(uint64_t first, uint64_t end) const noexcept override;

 private:
  Index();
  Status MakeViews();
  // Restores and builds all buckets, or has them wait.
  Status Open(Opening opening);
  // kOutOfMemory.
  Status StartKeeper();
  // One attempt to bring a bucket. *record_count: see UnreadBuckets.
  Status ReadBucket(uint32_t bucket, uint64_t* record_count) const;
  Status BuildWhole(uint32_t bucket, bool is_first, uint64_t record_count) const;
  bool Admit(uint32_t bucket, bool is_first, uint64_t record_count) const;
  Status BuildFromLog(uint32_t bucket, bool is_first) const;
  // Calls lookup(), and again after Bring while the bucket is unread, max_loads times at most.
  template <typename Lookup>
  Status Answer(uint32_t bucket, uint64_t version, const Lookup& lookup) const;
  // Calls walk(slices), and reads what it wants in between. `ahead` may be null.
  template <typename WalkFn>
  Status AnswerWalk(uint32_t bucket, uint64_t version, RunSlices* ahead, const WalkFn& walk) const;
  Status TakeBlock(uint64_t key, char* buffer, bool is_read, BlockLookup* lookup) const;
  Status AwaitBlocks(uint64_t key, BlockLookup* lookup, FunctionRef<Status()> find) const;
  // Both for at most kPrefetchedAtOnce keys.
  void PrefetchBlocks(std::span<const uint64_t> keys, std::span<RunWindow> windows) const;
  void PrefetchFlat(std::span<const uint64_t> keys, std::span<RunWindow> windows) const;
  Status MakePaging(std::function<uint64_t()> limit);
  // Drops a bucket, an extent of which cannot be read, if is_bad() still says so when no other
  // thread moves its runs. The next call that needs the bucket reads its log.
  void Lose(uint32_t bucket, const Status& why, FunctionRef<bool()> is_bad) const;
  // Drops a bucket that was read before the log detached the index from it. May throw
  // std::bad_alloc, and leaves the bucket hidden then.
  void DropHidden(uint32_t bucket) const;
  Status FindSlowly(uint64_t key, ValueRef* ref, BlockLookup* lookup, uint64_t version) const;
  Status FindHotSlowly(uint64_t key, ValueRef* ref, BlockLookup* lookup, const RunWindow& window,
                       uint64_t version) const;
  Status FirstKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t version,
                         std::span<uint64_t> keys, size_t* count, RunSlices* ahead) const;
  Status LastKeysSlowly(uint64_t first_key, uint64_t last_key, uint64_t version,
                        std::span<uint64_t> keys, size_t* count, RunSlices* ahead) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_H_

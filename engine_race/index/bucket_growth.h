// Adds new records to the row of a bucket. They go into deltas that grow; a full delta is merged
// into its part.
//
// One mutator. It takes the bucket's lock wherever readers could see a change.
#ifndef ENGINE_RACE_INDEX_BUCKET_GROWTH_H_
#define ENGINE_RACE_INDEX_BUCKET_GROWTH_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/index/bucket_shared.h"
#include "engine_race/index/delta.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/part_row.h"
#include "engine_race/index/read_write_lock.h"
#include "engine_race/index/views.h"

namespace engine_race {

class BucketGrowth {
 public:
  // The parts of a bucket that its growth works on.
  struct Bucket {
    ReadWriteLock& lock;
    PartRow& row;
    const FrameSlots& frames;
    BucketShared* shared;  // null: nothing is kept for views, nor counted
    SweepLink* link;
    bool keeps_tombstones;
    bool is_claimed;  // another thread moves runs: they must stay as they are
    bool may_be_paged;
    uint64_t births;  // of which the bucket's index has heard
    BucketIndex* index;

    void CountBytes(uint64_t now, uint64_t before) const noexcept {
      if (shared != nullptr) shared->part_bytes().Change(now, before);
    }
    // Flat runs count only where they may be paged.
    void CountRuns(RunCounts now, RunCounts before) const noexcept;
  };

  // A part of more keys is split. The records that it keeps for views count as keys. So a merge or
  // a step of a sweep copies no more records than this, the new ones, and one for each live view.
  static constexpr uint32_t kSplitKeys = uint32_t{125} << 10;
  static_assert(kSplitKeys <= format::kIndexExtentRecords, "a part fits an extent");
  uint32_t split_keys() const { return split_keys_; }
  void set_split_keys(uint32_t split_keys) { split_keys_ = split_keys; }

  // Whether there is room for one more record in every part of `row`.
  bool HasRoom(const PartRow& row) const {
    return !row.empty() && spare_.capacity() != 0 && full_part_ == kNoPart;
  }
  // Makes HasRoom true. kOutOfMemory.
  Status MakeRoom(const Bucket& bucket);
  // MakeRoomForMany makes room for `count` records in each part, whatever their keys.
  // MakeRoomForKeys makes it only in the parts of these keys, which ascend. In a bucket of many
  // parts MakeRoomForMany takes memory for the whole batch in each. kOutOfMemory.
  Status MakeRoomForMany(const Bucket& bucket, uint32_t count);
  Status MakeRoomForKeys(const Bucket& bucket, std::span<const uint64_t> keys);
  // Merges the delta of a flat part, and perhaps a neighbour. kOutOfMemory.
  Status Merge(const Bucket& bucket, size_t index) const;
  // Looks for the full delta of a row that another thread has changed. With the bucket's lock held.
  void FindFull(const PartRow& row) noexcept;
  // Puts a record into row.part(index), which must have room. Returns by how many bytes the delta
  // of that part has grown. With the bucket's lock held.
  // `before`: see Part::NoteRecord.
  size_t Put(const PartRow& row, size_t index, uint64_t key, ValueRef ref,
             const ViewRegistry::WriteStamp& stamp, const BucketMoment& before) noexcept;
  // Puts the parts of `replacement` in the place of `count` parts from `index` on. The parts that
  // were replaced end in *replaced, to be freed without locks. Calls finish(delta) under the lock,
  // with the delta of the first part that was replaced. May throw std::bad_alloc; nothing was done
  // then.
  static void Replace(const Bucket& bucket, size_t index, size_t count, PartReplacement replacement,
                      PartRow* replaced, FunctionRef<void(const Delta& old)> finish);
  // Has the history of the bucket swept. To be called after a merge that saw the views `live` and
  // left history in the bucket.
  static void SweepHistory(const Bucket& bucket, const LiveVersions& live) noexcept;
  static Status NoMemory() { return Status::OutOfMemory("index: no memory for new records"); }
  void Forget() {
    spare_ = Delta();
    full_part_ = kNoPart;
  }

 private:
  static constexpr uint32_t kNoPart = ~uint32_t{0};
  // The capacity of a new delta, and the factor by which it grows until it reaches its limit.
  static constexpr uint32_t kFirstDelta = 16;
  static constexpr uint32_t kDeltaGrowth = 4;
  // A full delta of a paged part grows to four times its limit while the keeper merges others.
  static constexpr uint32_t kLateFactor = 4;
  // One of this capacity is merged by its writer while deltas take more memory than the index may.
  static constexpr uint32_t kHurriedDelta = 1024;
  // A full delta is not grown or merged if it can drop this part of its records, which no view
  // shows.
  static constexpr uint32_t kDroppedFraction = 4;

  // The part at `index` of the bucket's row, with its current history.
  static MergeSource SourceOf(const Bucket& bucket, size_t index);
  static MergeSource SourceOf(const Part& part) {
    return {&part.run, &part.delta, part.history,
            part.extent == nullptr ? 0 : part.extent->max_key};
  }
  size_t NeighbourOf(const Bucket& bucket, size_t index, const MergeSource& source) const;
  // How many more records the part at `index` of the row, as it is then, is to have room for.
  using RoomFn = FunctionRef<uint32_t(size_t index)>;
  Status MakeRoomWhere(const Bucket& bucket, RoomFn wanted);
  // The first part from `index` on without that room; row.size() when all have it.
  static size_t FindLacking(const PartRow& row, size_t index, RoomFn wanted);
  Status GiveDelta(const Bucket& bucket, size_t index, uint32_t capacity) const;
  static bool DropUnseen(const Bucket& bucket, size_t index);
  static Status GrowDelta(const Bucket& bucket, size_t index, uint32_t limit);
  // `limit`: the records that the delta should have at most.
  static Status MakeRoomInPaged(const Bucket& bucket, size_t index, uint32_t limit);
  // An empty delta, for the next part that gets its first new record.
  Delta spare_;
  // The part whose delta the last record filled.
  uint32_t full_part_ = kNoPart;
  uint32_t split_keys_ = kSplitKeys;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_GROWTH_H_

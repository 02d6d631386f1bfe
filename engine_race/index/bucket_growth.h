// Adds new records to the row of a bucket. They go into deltas that grow; a full delta is merged
// into its part.
//
// One mutator. It takes the bucket's lock wherever readers could see a change.
#ifndef ENGINE_RACE_INDEX_BUCKET_GROWTH_H_
#define ENGINE_RACE_INDEX_BUCKET_GROWTH_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/index/delta.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/part_row.h"
#include "engine_race/index/pinned_buckets.h"
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
    PinnedBuckets* pinned;  // null: nothing is kept for views, nor counted
    PinnedLink* link;
    size_t split_keys;
    bool keeps_tombstones;

    void CountBytes(uint64_t now, uint64_t before) const noexcept {
      if (pinned != nullptr) pinned->part_bytes().Change(now, before);
    }
  };

  // Whether there is room for one more record in every part of `row`.
  bool HasRoom(const PartRow& row) const {
    return !row.empty() && spare_.capacity() != 0 && full_part_ == kNoPart;
  }
  // Makes HasRoom true. kOutOfMemory.
  Status MakeRoom(const Bucket& bucket);
  // Puts a record into row.part(index), which must have room. Returns by how many bytes the delta
  // of that part has grown. With the bucket's lock held.
  size_t Put(const PartRow& row, size_t index, uint64_t key, ValueRef ref,
             const ViewRegistry::WriteStamp& stamp) noexcept;
  void Forget() {
    spare_ = Delta();
    full_part_ = kNoPart;
  }

 private:
  static constexpr uint32_t kNoPart = ~uint32_t{0};
  // The capacity of a new delta, and the factor by which it grows until it reaches its limit.
  static constexpr uint32_t kFirstDelta = 16;
  static constexpr uint32_t kDeltaGrowth = 4;
  // A full delta is not grown or merged if it can drop this part of its records, which no view
  // shows.
  static constexpr uint32_t kDroppedFraction = 4;

  // The part at `index` of the bucket's row, with its current history.
  static MergeSource SourceOf(const Bucket& bucket, size_t index);
  static size_t NeighbourOf(const Bucket& bucket, size_t index, const MergeSource& source);
  static bool DropUnseen(const Bucket& bucket, size_t index);
  static Status GrowDelta(const Bucket& bucket, size_t index, uint32_t limit);
  static Status Merge(const Bucket& bucket, size_t index);
  // Puts the parts of `replacement` in the place of `count` parts from `index` on. May throw
  // std::bad_alloc.
  static void Replace(const Bucket& bucket, size_t index, size_t count,
                      PartReplacement replacement);

  // An empty delta, for the next part that gets its first new record.
  Delta spare_;
  // The part whose delta the last record filled.
  uint32_t full_part_ = kNoPart;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_GROWTH_H_

// How the row of a bucket takes new records: into deltas that grow, and merges of deltas that are
// full into their parts.
//
// One mutator. The bucket's lock is taken where readers could see a change.
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
  // What of a bucket it works on.
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
  // Sees to it that there is. kOutOfMemory.
  Status MakeRoom(const Bucket& bucket);
  // Puts a record into row.part(index), which has room. Returns how many bytes more the part's
  // delta has taken. With the bucket's lock held.
  size_t Put(const PartRow& row, size_t index, uint64_t key, ValueRef ref,
             const ViewRegistry::WriteStamp& stamp) noexcept;
  void Forget() {
    spare_ = Delta();
    full_part_ = kNoPart;
  }

 private:
  static constexpr uint32_t kNoPart = ~uint32_t{0};
  // What a delta begins with and grows by, until its part's limit makes it merge.
  static constexpr uint32_t kFirstDelta = 16;
  static constexpr uint32_t kDeltaGrowth = 4;
  // This part of a full delta, dropped because no view shows it, saves growing or merging it.
  static constexpr uint32_t kDroppedFraction = 4;

  // Of bucket.row.part(index), and its history as it is now.
  static MergeSource SourceOf(const Bucket& bucket, size_t index);
  static size_t NeighbourOf(const Bucket& bucket, size_t index, const MergeSource& source);
  static bool DropUnseen(const Bucket& bucket, size_t index);
  static Status GrowDelta(const Bucket& bucket, size_t index, uint32_t limit);
  static Status Merge(const Bucket& bucket, size_t index);
  // Puts the parts of `replacement` in the place of `count` parts from `index` on. std::bad_alloc.
  static void Replace(const Bucket& bucket, size_t index, size_t count,
                      PartReplacement replacement);

  // An empty delta for the next part that gets its first new record.
  Delta spare_;
  // The part whose delta the last record filled.
  uint32_t full_part_ = kNoPart;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_GROWTH_H_

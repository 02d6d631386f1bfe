// Finds the live records of a bucket, and gives up cells of the others.
//
// A cell without live records is given up as it is. The live records of sparse cells are first
// written again, to rows of their own; cell_choice.h says which cells. Records are sorted by age
// before they are written again, and never mixed with new ones. So records that change seldom come
// to lie together, and are not written again for a long time.
//
// A tombstone is live for as long as an older record of its key is in some row. It counts as dead
// in the share of dead records all the same: it goes once that older record has gone.
//
// One thread. Owner of its buffers.
#ifndef ENGINE_RACE_RECLAIM_BUCKET_CLEANER_H_
#define ENGINE_RACE_RECLAIM_BUCKET_CLEANER_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/reclaim/cell_choice.h"

namespace engine_race {

// How the slots of a bucket are used after a cleaning, in records.
struct BucketUse {
  uint64_t record_count = 0;  // appended so far
  uint64_t live_count = 0;    // without tombstones
  uint64_t held_count = 0;    // in cells that take space
  // Held in cells that this cleaning gave up. has_more: another one may give up more.
  uint64_t freed_count = 0;
  uint64_t moved_count = 0;  // records that it wrote again
  bool has_more = false;
};

class BucketCleaner {
 public:
  explicit BucketCleaner(BucketLog* log) : log_(*log) {}

  // With the bucket claimed. Gives up all cells without live records. If more than `dead_percent`
  // of the held records are dead, also writes records again until a little fewer are. With 0: until
  // none is. *use: as it is afterwards. kIOError, kFull, kOutOfMemory. Between two pieces it tells
  // `progress`, which may be null. kIncomplete: its caller has cancelled.
  Status Clean(uint32_t bucket, uint32_t dead_percent, BucketUse* use,
               SharedProgress* progress = nullptr);
  // Clean for a region that is full: frees whole rows.
  Status MakeSpace(uint32_t bucket, BucketUse* use);

 private:
  struct Item {
    uint64_t key;
    uint64_t order;
    uint32_t slot;
    bool tombstone;
  };
  Status FreeWhat(FunctionRef<void()> choose, uint32_t bucket, BucketUse* use,
                  SharedProgress* progress);
  Status Look(uint32_t bucket);
  Status ReadEntries(uint32_t bucket);
  void FindLive(uint32_t bucket);
  bool IsSettled(const Row& row) const;
  void CountCells();
  CellsOfBucket Cells() const;
  Status FreeChosen(uint32_t bucket, SharedProgress* progress);
  Status MoveAndFree(uint32_t bucket, std::span<const Cell> cells);
  Status ReadValues(uint32_t bucket, const Cell& cell, char* values);
  uint64_t FirstSlotOf(const Cell& cell) const;
  Status TakeLive(uint32_t bucket, const Cell& cell, const char* values);
  Status WriteMoved(uint32_t bucket, uint64_t from, uint64_t to);
  Status Free(uint32_t bucket, std::span<const Cell> cells);
  void Finish(BucketUse* use);

  BucketLog& log_;
  BucketCut cut_;
  // Appended records below this are in the logs, or synced. Others supersede nothing: a power loss
  // could take them.
  uint64_t horizon_ = 0;
  // Records of lower orders may be older than a damaged one of their key. 0: none is damaged.
  uint64_t first_movable_ = 0;
  std::map<uint32_t, uint32_t> unsettled_;  // RowMover::UnsettledCells
  Region entries_;
  std::vector<Item> items_;
  // By slot: live records, and the tombstones among them.
  std::vector<bool> live_;
  std::vector<bool> tombstones_;
  // Tombstones that are the newest records of their keys, and the only ones.
  std::vector<bool> lone_tombstones_;
  std::vector<Cell> cells_;
  CellChoice choice_;
  uint64_t live_count_ = 0;
  uint64_t held_count_ = 0;
  // Of this cleaning so far.
  uint64_t freed_count_ = 0;
  uint64_t moved_count_ = 0;
  // The free rows that are left alone. The last one is for cleanings that free whole rows.
  uint64_t kept_row_count_ = 0;
  // The records to be written again, and their values.
  struct Moving {
    KeyRecord record;
    uint64_t time = 0;
    const char* value = nullptr;
  };
  std::vector<Moving> moving_;
  Region values_;
  Region group_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_BUCKET_CLEANER_H_

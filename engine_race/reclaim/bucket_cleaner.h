// Finds the live records of a bucket, and gives up the slots of all others.
//
// The tail of the bucket fills these slots again. A bucket may have many more slots than live
// records. Only then the live records of its sparsest rows are written again, to rows of their own.
// Then the sparse rows are free, and their space is given back.
//
// A tombstone is live for as long as an older record of its key is in some row. It counts as dead
// in the share of dead records all the same: it goes once that older record has gone.
//
// One thread. Owner of its buffers.
#ifndef ENGINE_RACE_RECLAIM_BUCKET_CLEANER_H_
#define ENGINE_RACE_RECLAIM_BUCKET_CLEANER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/reclaim/row_choice.h"

namespace engine_race {

// How the slots of a bucket are used after a cleaning, in records.
struct BucketUse {
  uint64_t record_count = 0;  // appended so far
  // Keys with a value, damaged entries, and tombstones that stay for these.
  uint64_t live_count = 0;
  uint64_t held_count = 0;  // in slots that were not given up
  uint64_t slot_count = 0;  // of rows that hold records
  // Slots that this cleaning gave up, but for those of records that it wrote again.
  uint64_t freed_count = 0;
  uint64_t moved_count = 0;
  // Another cleaning may give up more.
  bool has_more = false;
};

class BucketCleaner {
 public:
  explicit BucketCleaner(BucketLog* log) : log_(*log) {}

  // With the bucket claimed. Gives up the slots of all dead records. Also empties rows if these
  // have many more slots than SlotLimit(live records, `dead_percent`). With 0 it empties all rows
  // of which a sixteenth is free. On a full disk it empties none if their gaps give space back.
  // *use: as it is afterwards. kIOError, kFull, kOutOfMemory. Between two pieces it tells
  // `progress`, which may be null. kIncomplete: its caller has cancelled.
  Status Clean(uint32_t bucket, uint32_t dead_percent, BucketUse* use,
               SharedProgress* progress = nullptr);
  // Clean for a bucket or a disk that is full: empties no row.
  Status MakeSpace(uint32_t bucket, BucketUse* use);

 private:
  // On a full disk gaps are punched out where that gives space back: moved records would take as
  // much as they leave.
  bool PunchesInstead() const {
    return log_.reserve().is_given_up() && log_.geometry().slots_have_blocks();
  }
  struct Item {
    uint64_t key;
    uint64_t sequence;
    uint32_t slot;
    bool tombstone;
  };
  struct UsedRow {
    SlotBits live;
    SlotBits dead;
    bool is_fixed = false;   // none of its slots may be given up
    bool keeps_run = false;  // its run reaches the horizon, so no live record is moved from it
  };
  // A record to be written again. Without a value that one is read when it is written.
  struct Moving {
    KeyRecord record;
    const char* value = nullptr;
  };
  Status CleanGuarded(uint32_t bucket, FunctionRef<RowChoice()> choose, BucketUse* use,
                      SharedProgress* progress);
  Status Look(uint32_t bucket);
  Status ReadEntries(uint32_t bucket);
  void FindLive(uint32_t bucket);
  void CountRows();
  std::vector<MovableRow> MovableRows() const;
  Status FreeDead(uint32_t bucket);
  Status MoveChosen(uint32_t bucket, const RowChoice& choice, SharedProgress* progress);
  Status MoveAndFree(uint32_t bucket, std::span<const uint32_t> rows);
  Status TakeLive(uint32_t bucket, uint32_t row, char* values);
  Status ReadValues(uint32_t bucket, uint64_t first, const SlotBits& slots, char* values);
  bool NoteUnreadable(uint32_t row, const Status& failure);
  Status PutMoving(uint32_t bucket, const Moving& moving, char* slot);
  Status WriteMoved(uint32_t bucket, uint64_t from, uint64_t to);
  Status Free(uint32_t bucket, uint32_t row, const SlotBits& slots);
  void Finish(BucketUse* use);

  BucketLog& log_;
  BucketCut cut_;
  // Appended records below this are in both logs. Later ones supersede nothing: a power loss could
  // take them.
  uint64_t horizon_ = 0;
  // Records of lower NewestBelow may be older than a damaged one of their key. 0: none is damaged.
  uint64_t first_movable_ = 0;
  std::map<uint32_t, SlotBits> unsettled_;  // RowMover::UnsettledSlots
  Region entries_;
  std::vector<Item> items_;
  // By slot: live records, and the tombstones among them.
  std::vector<bool> live_;
  std::vector<bool> tombstones_;
  // Tombstones that are the newest records of their keys, and the only ones.
  std::vector<bool> lone_tombstones_;
  // By row.
  std::map<uint32_t, UsedRow> rows_;
  // Of the bucket that was cleaned last: rows that could not be moved.
  std::set<uint32_t> unreadable_rows_;
  uint32_t bucket_ = 0;
  bool has_more_ = false;
  uint64_t live_count_ = 0;  // of BucketUse
  uint64_t held_count_ = 0;
  uint64_t slot_count_ = 0;
  // Of this cleaning so far.
  uint64_t freed_count_ = 0;
  uint64_t moved_count_ = 0;
  std::vector<Moving> moving_;
  Region values_;  // of them
  Region group_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_BUCKET_CLEANER_H_

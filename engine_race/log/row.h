// One row of slots, as the file of rows has it.
//
// A row holds up to two kinds of records. Those of its **run** have neighbouring sequence numbers,
// in the order of the slots of its **path**. The others are **kept**: they stayed where they were
// when the run began, or were moved to the row. Their entries tell their numbers.
//
// A bucket counts how often rows of it were taken or filled again: its births. The **birth** of a
// row is the count when that happened last. A row whose birth is still the same holds the records
// that it held then, less those that were freed. In a row that was born since, the kept records are
// where they were. The index on disk stands on this: log/index_coverage.h.
//
// Rows that records were moved to keep the **horizon** of the move. The bucket had that many
// records when the moved ones were found to be the newest of their keys. Horizons grow with births.
// So a record of one of their keys that is newer, and was not moved, has a number from the horizon
// on.
//
// The entries of moved records check against the **seal** of their row, which is random. Entries
// that the slots held before never pass for theirs. `moved_at` is the birth at which the records
// were moved there.
//
// After a power loss the records of a row that was not durable yet are where they were moved from.
// The index on disk may know them in that row alone. So recovery begins a new **era** of births
// when it frees such a row. No coverage of an earlier era holds.
//
// Plain data.
#ifndef ENGINE_RACE_LOG_ROW_H_
#define ENGINE_RACE_LOG_ROW_H_

#include <cstdint>

#include "engine_race/log/format.h"
#include "engine_race/log/slot_bits.h"

namespace engine_race {

// How far a bucket was at some moment: how many records it had had, and how many births.
struct BucketMoment {
  uint64_t record_count = 0;
  uint64_t births = 0;
};

struct Row {
  bool free() const { return kind == format::RowKind::kFree; }
  bool is_moving() const { return kind == format::RowKind::kMoving; }
  bool has_run() const { return !path.empty(); }
  SlotBits kept() const { return held - path; }
  uint64_t run_end() const { return number + path.count(); }
  // Whether its run ends at `record_count` or behind it. The row of the last synced record keeps
  // its run, which tells how many records there are.
  bool RunReaches(uint64_t record_count) const { return has_run() && run_end() >= record_count; }
  // This row, holding nothing any more. Views may still show its records.
  Row Freed() const {
    Row freed = *this;
    freed.kind = format::RowKind::kFree;
    freed.number = 0;
    freed.path = freed.held = {};
    return freed;
  }

  format::RowKind kind = format::RowKind::kFree;
  // Of the run: its first sequence number, and its slots. Without a run, kept records that were not
  // moved have lower numbers than this.
  uint64_t number = 0;
  SlotBits path = {};
  // The slots that hold records. Those of the run hold them from its beginning on.
  SlotBits held = {};
  uint64_t birth = 0;
  // Of moved records. The seal is 0 if none were ever moved to the row.
  uint64_t horizon = 0;
  uint64_t seal = 0;
  uint64_t moved_at = 0;

  friend bool operator==(const Row&, const Row&) = default;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ROW_H_

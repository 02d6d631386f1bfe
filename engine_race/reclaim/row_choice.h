// How many rows a bucket may have, and which ones its live records are moved out of where it has
// more.
//
// The sparsest rows come first: they cost least. The tail fills the gaps of all others again.
//
// Pure functions.
#ifndef ENGINE_RACE_RECLAIM_ROW_CHOICE_H_
#define ENGINE_RACE_RECLAIM_ROW_CHOICE_H_

#include <cstdint>
#include <vector>

#include "engine_race/log/geometry.h"

namespace engine_race {

// The slots that a bucket of so many live records may have: `dead_percent` of them without one.
// Where two rows are more it may have these, but a quarter of the live records at most.
uint64_t SlotLimit(uint64_t live_count, uint32_t dead_percent, const Geometry& geometry);
// The rows that the tail of a bucket may take: those of `slot_limit`, rounded, or a few
// however few records are live. In a store of few buckets each may have more.
uint64_t RowLimit(uint64_t slot_limit, const Geometry& geometry);
// The rows that moves should win in a bucket whose rows have `slot_count` slots. 0: these are not
// so many more than `slot_limit` that moving is worth it.
uint64_t SpareRows(uint64_t slot_count, uint64_t slot_limit, const Geometry& geometry);

// A row that may be emptied.
struct MovableRow {
  uint32_t row = 0;
  uint32_t live_count = 0;
  uint32_t live_end = 0;  // behind the last slot with a live record
};

struct RowChoice {
  std::vector<uint32_t> rows;
  // Whether more could be won with more room.
  bool has_more = false;
};

// Chooses rows until the moves win `wanted_count` rows, or as many as they can. The moved records
// take at most `room` rows.
RowChoice ChooseRows(std::vector<MovableRow> rows, uint32_t row_records, uint64_t wanted_count,
                     uint64_t room);
// With so many free slots a row is worth emptying, or its gaps a hole.
constexpr uint32_t SparseCount(uint32_t row_records) { return row_records / 16; }
// Chooses all rows with SparseCount free slots or more. Together they take as few slots as they
// have live records. So more is won than whole rows.
RowChoice ChooseSparse(std::vector<MovableRow> rows, uint32_t row_records, uint64_t room);

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_ROW_CHOICE_H_

// Chooses the rows of a bucket whose live records are moved out, so that whole rows get free.
//
// The sparsest rows come first: they cost least. The tail fills the gaps of all others again, so
// rows are moved only where a bucket has many more slots than live records.
//
// Pure functions.
#ifndef ENGINE_RACE_RECLAIM_ROW_CHOICE_H_
#define ENGINE_RACE_RECLAIM_ROW_CHOICE_H_

#include <cstdint>
#include <vector>

namespace engine_race {

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

#include "engine_race/reclaim/cell_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace engine_race {
namespace {

// The fewest cells that are moved together: more records can be sorted by age.
constexpr size_t kMinChosen = 8;
// The cells by which a bucket may exceed the limit before any are moved.
constexpr uint64_t kSpareCells = 2;
// The room that a cleaning makes, of the dead records that the bucket may have.
constexpr uint64_t kRoomShare = 8;
// The c of the header.
constexpr double kCost = 0.02;
// Cells stay whose score is less than this share of the row's.
constexpr double kFullCellShare = 0.75;
// A row is not worth moving when all of its records are live and it is fuller than this.
constexpr double kFullRowShare = 0.9375;

struct RowUse {
  uint64_t live_count = 0;
  uint64_t held_count = 0;
  double score = 0;
  std::span<const Cell> cells;
};

double ScoreOf(uint64_t live_count, uint64_t held_count, uint64_t time, uint64_t record_count) {
  const double used = static_cast<double>(live_count) / static_cast<double>(held_count);
  const auto age = static_cast<double>(record_count - time + 1);
  return (1 - used) / (used + kCost) * std::sqrt(age);
}

std::vector<RowUse> RowsOf(const CellsOfBucket& bucket) {
  std::vector<RowUse> rows;
  const std::span<const Cell> cells = bucket.cells;
  for (size_t i = 0; i < cells.size();) {
    RowUse row;
    const size_t first = i;
    for (; i < cells.size() && cells[i].row == cells[first].row; ++i) {
      row.live_count += cells[i].live_count;
      row.held_count += cells[i].held_count;
    }
    row.cells = cells.subspan(first, i - first);
    row.score = ScoreOf(row.live_count, row.held_count, cells[first].time, bucket.record_count);
    rows.push_back(row);
  }
  return rows;
}

// Cells without live records cost nothing: all of them are chosen.
void AddDead(std::span<const Cell> cells, std::vector<Cell>* chosen) {
  for (const Cell& cell : cells) {
    if (cell.live_count == 0) chosen->push_back(cell);
  }
}

}  // namespace

CellChoice ChooseCells(const CellsOfBucket& bucket, uint32_t dead_percent, uint64_t room) {
  CellChoice choice;
  AddDead(bucket.cells, &choice.cells);
  uint64_t held_count = bucket.held_count;
  for (const Cell& cell : choice.cells) held_count -= cell.held_count;
  const uint64_t limit = bucket.live_count * 100 / (100 - std::min(dead_percent, 99U));
  if (dead_percent != 0 && held_count <= limit + kSpareCells * bucket.cell_records) return choice;
  // Makes room for a share of the bucket. The next cleaning reads all entries again, so what an
  // append costs does not grow with the bucket.
  const uint64_t goal = limit - (limit - bucket.live_count) / kRoomShare;
  std::vector<RowUse> rows = RowsOf(bucket);
  std::sort(rows.begin(), rows.end(),
            [](const RowUse& a, const RowUse& b) { return a.score > b.score; });
  uint64_t moved = 0;
  size_t chosen_count = 0;
  for (const RowUse& row : rows) {
    if (dead_percent != 0 && chosen_count >= kMinChosen && held_count <= goal) break;
    for (const Cell& cell : row.cells) {
      if (dead_percent == 0 && cell.tombstone_count != 0) {
        choice.has_more = true;
        continue;
      }
      if (cell.live_count == 0 || cell.live_count == cell.held_count) continue;
      const double score =
          ScoreOf(cell.live_count, cell.held_count, cell.time, bucket.record_count);
      if (dead_percent != 0 && score < kFullCellShare * row.score) continue;
      if (moved + cell.live_count > room) {
        choice.has_more = true;
        return choice;
      }
      moved += cell.live_count;
      held_count -= cell.held_count - cell.live_count;
      choice.cells.push_back(cell);
      ++chosen_count;
    }
  }
  return choice;
}

CellChoice ChooseRows(const CellsOfBucket& bucket, uint64_t room) {
  std::vector<RowUse> rows = RowsOf(bucket);
  std::sort(rows.begin(), rows.end(),
            [](const RowUse& a, const RowUse& b) { return a.live_count < b.live_count; });
  CellChoice choice;
  AddDead(bucket.cells, &choice.cells);
  std::vector<Cell> sparse;
  const uint64_t wanted_count = rows.size() / 4 + 1;
  uint64_t moved = 0;
  uint64_t won_count = 0;
  bool wins_part = false;
  // Of the row that is chosen in part, if all of its records are live.
  uint64_t part_live_count = 0;
  for (const RowUse& row : rows) {
    // Moving this row and all fuller ones frees too few slots.
    if (row.live_count == row.held_count &&
        static_cast<double>(row.live_count) > kFullRowShare * bucket.row_records) {
      break;
    }
    const uint64_t used_count = (moved + bucket.row_records - 1) / bucket.row_records;
    choice.has_more = won_count >= wanted_count && won_count > used_count;
    if (choice.has_more) break;
    for (const Cell& cell : row.cells) {
      if (cell.live_count == 0) continue;
      choice.has_more = moved + cell.live_count > room;
      if (choice.has_more) break;
      moved += cell.live_count;
      wins_part = true;
      part_live_count = row.live_count == row.held_count ? row.live_count : 0;
      sparse.push_back(cell);
    }
    if (choice.has_more) break;
    wins_part = false;
    ++won_count;
  }
  const uint64_t used_count = (moved + bucket.row_records - 1) / bucket.row_records;
  // The last row that is written must be fuller than the one that loses cells. Otherwise cleanings
  // would exchange the two for ever.
  wins_part =
      wins_part && moved + bucket.row_records - used_count * bucket.row_records > part_live_count;
  if (won_count > used_count || (won_count == used_count && wins_part)) {
    choice.cells.insert(choice.cells.end(), sparse.begin(), sparse.end());
  }
  return choice;
}

}  // namespace engine_race

// Chooses the cells of a bucket that are given up.
//
// The cells of a row are given up together. They are of one age, one hole is punched instead of
// eight, and the whole row is used again. The rows with the highest score are chosen. A score is
// (1 - u) / (u + c) * sqrt(age), where u is the share of live records. The age is the number of
// appends since the records were written. That is the cost-benefit rule of Rosenblum and Ousterhout
// (The Design and Implementation of a Log-Structured File System, 1992). Age has less weight here,
// because a bucket has few rows. Cells of a chosen row stay if their score is below kFullCellShare
// of the row's.
//
// Pure functions.
#ifndef ENGINE_RACE_RECLAIM_CELL_CHOICE_H_
#define ENGINE_RACE_RECLAIM_CELL_CHOICE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace engine_race {

// A cell that may be given up.
struct Cell {
  uint32_t row = 0;
  uint32_t cell = 0;             // within the row
  uint32_t held_count = 0;       // records in it
  uint32_t live_count = 0;       // live ones among them
  uint32_t tombstone_count = 0;  // tombstones among the live ones
  // How many records the bucket had when they were written, about.
  uint64_t time = 0;
};

struct CellChoice {
  // Those without live records first.
  std::vector<Cell> cells;
  // Whether another cleaning could give up more.
  bool has_more = false;
};

// The cells of a bucket that may be given up, and the bucket's counts of records.
struct CellsOfBucket {
  // By row, and within a row by number.
  std::span<const Cell> cells;
  uint64_t record_count = 0;  // appended so far
  uint64_t live_count = 0;    // without tombstones
  uint64_t held_count = 0;
  uint32_t row_records = 0;
  uint32_t cell_records = 0;
};

// Chooses cells until at most `dead_percent` of the held records are dead, if more are. With 0:
// until none is, except in cells with live tombstones. Another cleaning may free those as they are.
// At most `room` records are to be moved.
CellChoice ChooseCells(const CellsOfBucket& bucket, uint32_t dead_percent, uint64_t room);

// For a bucket with few free rows: chooses whole rows, those with the fewest live records first. It
// stops at a quarter of the rows, if these are more than the moved records take. At most `room`
// records are to be moved. So the last row may be chosen in part: another cleaning moves its other
// cells together with the next row's. One free row often suffices for that. It does not where the
// dead records lie so evenly that no row and another one's cell fit into it together.
CellChoice ChooseRows(const CellsOfBucket& bucket, uint64_t room);

}  // namespace engine_race

#endif  // ENGINE_RACE_RECLAIM_CELL_CHOICE_H_

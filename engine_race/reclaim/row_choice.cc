#include "engine_race/reclaim/row_choice.h"

#include <algorithm>
#include <cstddef>

namespace engine_race {
namespace {

uint64_t RowsFor(uint64_t record_count, uint32_t row_records) {
  return (record_count + row_records - 1) / row_records;
}

void SortSparsestFirst(std::vector<MovableRow>* rows) {
  std::sort(rows->begin(), rows->end(), [](const MovableRow& a, const MovableRow& b) {
    return a.live_count != b.live_count ? a.live_count < b.live_count : a.row < b.row;
  });
}

}  // namespace

RowChoice ChooseRows(std::vector<MovableRow> rows, uint32_t row_records, uint64_t wanted_count,
                     uint64_t room) {
  SortSparsestFirst(&rows);
  RowChoice choice;
  uint64_t moved_count = 0;
  uint64_t most_won = 0;
  size_t chosen_count = 0;
  for (size_t i = 0; i < rows.size() && most_won < wanted_count; ++i) {
    moved_count += rows[i].live_count;
    const uint64_t taken = RowsFor(moved_count, row_records);
    choice.has_more = taken > room;
    if (choice.has_more) break;
    if (i + 1 - taken <= most_won) continue;
    most_won = i + 1 - taken;
    chosen_count = i + 1;
  }
  for (size_t i = 0; i < chosen_count; ++i) choice.rows.push_back(rows[i].row);
  return choice;
}

RowChoice ChooseSparse(std::vector<MovableRow> rows, uint32_t row_records, uint64_t room) {
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [&](const MovableRow& row) {
                              return row.live_count > row_records - SparseCount(row_records);
                            }),
             rows.end());
  // A row by itself would come to lie as it does.
  if (rows.size() == 1 && rows[0].live_end == rows[0].live_count) return {};
  SortSparsestFirst(&rows);
  RowChoice choice;
  uint64_t moved_count = 0;
  for (const MovableRow& row : rows) {
    moved_count += row.live_count;
    choice.has_more = RowsFor(moved_count, row_records) > room;
    if (choice.has_more) break;
    choice.rows.push_back(row.row);
  }
  // It would be moved to and fro.
  if (choice.has_more && choice.rows.size() == 1) choice.rows.clear();
  return choice;
}

}  // namespace engine_race

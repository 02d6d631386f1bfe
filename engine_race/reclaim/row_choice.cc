#include "engine_race/reclaim/row_choice.h"

#include <algorithm>
#include <cstddef>

namespace engine_race {
namespace {

// A writer that finds the rows of its bucket full waits for a flush. So small buckets have so many
// rows, and the buckets of a store at least so many bytes together.
constexpr uint64_t kMinRowLimit = 3;
constexpr uint64_t kMinLimitBytes = uint64_t{8} << 20;
// A bucket may always have so many rows without live records, but at most this part of its live
// records. Up to a row of newer records is only staged, and supersedes nothing yet. Slots that were
// given up wait for a flush. With fewer, a bucket would take more rows all the time, and be moved
// out of them again.
constexpr uint64_t kWorkingRows = 2;
constexpr uint64_t kWorkingShare = 4;
// Rows are emptied where a bucket has so many slots beyond its limit: a share of the limit, and at
// least a row. The first share is for rows that the tail may not take again.
constexpr uint64_t kSpareShare = 16;
constexpr uint64_t kSpareShareWithinLimit = 4;

uint64_t RowsFor(uint64_t record_count, uint32_t row_records) {
  return (record_count + row_records - 1) / row_records;
}

// Up to so many rows, half of one is much of what a bucket may leave empty.
constexpr uint64_t kFewRows = 6;

// To the nearest row; upwards where there are few.
uint64_t RowsOf(uint64_t slot_count, uint32_t row_records) {
  if (slot_count < kFewRows * row_records) return RowsFor(slot_count, row_records);
  return (slot_count + row_records / 2) / row_records;
}

void SortSparsestFirst(std::vector<MovableRow>* rows) {
  std::sort(rows->begin(), rows->end(), [](const MovableRow& a, const MovableRow& b) {
    return a.live_count != b.live_count ? a.live_count < b.live_count : a.row < b.row;
  });
}

}  // namespace

uint64_t SlotLimit(uint64_t live_count, uint32_t dead_percent, const Geometry& geometry) {
  const uint64_t working_count =
      std::min(kWorkingRows * geometry.row_records(), live_count / kWorkingShare);
  return std::max(live_count * 100 / (100 - std::min(dead_percent, 99U)),
                  live_count + working_count);
}

uint64_t RowLimit(uint64_t slot_limit, const Geometry& geometry) {
  const uint64_t share = kMinLimitBytes / geometry.row_bytes() / geometry.bucket_count;
  return std::max({RowsOf(slot_limit, geometry.row_records()), kMinRowLimit, share});
}

uint64_t SpareRows(uint64_t slot_count, uint64_t slot_limit, const Geometry& geometry) {
  const uint32_t row_records = geometry.row_records();
  const uint64_t row_count = slot_count / row_records;
  const bool within = row_count <= RowLimit(slot_limit, geometry);
  const uint64_t spare_count =
      std::max<uint64_t>(slot_limit / (within ? kSpareShareWithinLimit : kSpareShare), row_records);
  if (slot_count <= slot_limit + spare_count) return 0;
  return row_count - std::min(row_count, RowsOf(slot_limit, row_records));
}

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

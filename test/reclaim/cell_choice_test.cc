// Which rows are won where free ones are scarce.
#include "engine_race/reclaim/cell_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace engine_race::test {
namespace {

constexpr uint32_t kRow = 256;
constexpr uint32_t kCell = 32;

// A row that holds live records alone, from its first slot on.
void AddRow(uint32_t row, uint32_t live_count, std::vector<Cell>* cells) {
  for (uint32_t cell = 0; live_count > 0; ++cell) {
    const uint32_t count = std::min(live_count, kCell);
    cells->push_back({.row = row, .cell = cell, .held_count = count, .live_count = count});
    live_count -= count;
  }
}

// How many records ChooseRows moves of rows with these live records, with one free row.
uint64_t MovedOf(const std::vector<uint32_t>& live_counts) {
  std::vector<Cell> cells;
  CellsOfBucket bucket;
  bucket.row_records = kRow;
  bucket.cell_records = kCell;
  for (uint32_t row = 0; row < live_counts.size(); ++row) {
    AddRow(row, live_counts[row], &cells);
    bucket.live_count += live_counts[row];
  }
  bucket.held_count = bucket.record_count = bucket.live_count;
  bucket.cells = cells;
  uint64_t moved_count = 0;
  for (const Cell& cell : ChooseRows(bucket, kRow).cells) moved_count += cell.live_count;
  return moved_count;
}

TEST(ChooseRowsTest, RowsThatFitIntoOneBecomeOne) {
  EXPECT_EQ(MovedOf({256, 100, 100, 256}), 200u);
  EXPECT_EQ(MovedOf({128, 128, 256}), 256u);
}

TEST(ChooseRowsTest, FullRowsStay) { EXPECT_EQ(MovedOf({256, 256, 250, 241}), 0u); }

// One row is won, and a second one in part. The row that is written is fuller than both were.
TEST(ChooseRowsTest, ARowIsWonInPartForTheNextCleaning) {
  EXPECT_EQ(MovedOf({200, 200, 200}), 232u);
}

// Another cleaning would do the same with the rows' places exchanged.
TEST(ChooseRowsTest, RowsAreNotExchanged) {
  EXPECT_EQ(MovedOf({168, 232}), 0u);
  EXPECT_EQ(MovedOf({232, 168, 256}), 0u);
}

}  // namespace
}  // namespace engine_race::test

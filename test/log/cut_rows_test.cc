// CutRows: which rows a loss of power leaves.
#include <gtest/gtest.h>

#include "engine_race/log/power_recovery.h"
#include "test/log/slot_table_test_util.h"

namespace engine_race::test {
namespace {

// A run of which all records were freed.
Row EmptyRun(uint64_t number) {
  Row row = RunRow(number);
  row.held = {};
  return row;
}

// Until the counts are written anew they have the old synced watermark. Without a run that reaches
// it the bucket would be damaged.
TEST(CutRowsTest, TheRowOfTheLastSyncedRecordKeepsItsRun) {
  SlotTable table = MakeTable();
  for (uint32_t row = 0; row < 3; ++row) table.SetRow(row, EmptyRun(row));
  CutRows(2 * kTableRow, /*synced_watermark=*/2 * kTableRow, &table);
  EXPECT_TRUE(table.rows()[0].free());
  EXPECT_EQ(table.rows()[1], EmptyRun(1));
  EXPECT_TRUE(table.rows()[2].free());
  // A record behind it has outlived the loss of power, and has got another row.
  table.SetRow(2, RunRow(2));
  CutRows(2 * kTableRow + 1, /*synced_watermark=*/2 * kTableRow, &table);
  EXPECT_EQ(table.rows()[1], EmptyRun(1));
  EXPECT_EQ(table.RunEnd(), 3 * kTableRow);
}

}  // namespace
}  // namespace engine_race::test

#include "engine_race/log/slot_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "test/log/log_test_util.h"
#include "test/log/slot_table_test_util.h"

namespace engine_race::test {
namespace {

using format::RowKind;

TEST(SlotTableTest, RowsAreAsLargeAsTheLargerGroup) {
  EXPECT_EQ(MakeTable().row_records(), kTableRow);
  Options options = TinyLogOptions();
  options.key_group_bytes = 4096;
  EXPECT_EQ(SlotTable(GeometryFrom(options)).row_records(), 128u);
  options.value_group_bytes = 1 << 20;
  EXPECT_EQ(SlotTable(GeometryFrom(options)).row_records(), 256u);
}

TEST(SlotTableTest, WithoutRowsSlotsAreSequenceNumbers) {
  const SlotTable table = MakeTable();
  EXPECT_FALSE(table.has_rows());
  EXPECT_EQ(table.SlotEnd(1000), 1000u);
  EXPECT_TRUE(table.Holds(999, 1000));
  EXPECT_FALSE(table.Holds(1000, 1000));
  EXPECT_EQ(table.SequenceEnd(7), 8u);
  EXPECT_EQ(table.SlotOf(123), 123u);
  uint64_t sequence = 0;
  EXPECT_TRUE(table.SequenceOf(123, &sequence));
  EXPECT_EQ(sequence, 123u);
}

Row Born(Row row, uint64_t birth) {
  row.birth = birth;
  if (!row.has_run()) row.moved_at = birth;
  return row;
}

TEST(SlotTableTest, BirthsAreThoseOfTheLastRowThatWasTaken) {
  SlotTable table = MakeTable();
  table.BeginRows(2 * kTableRow);
  EXPECT_EQ(table.births(), 0U);
  table.SetRow(2, Born(RunRow(2), 7));
  table.SetRow(3, Born(RunRow(3), 6));
  EXPECT_EQ(table.births(), 7U);
  table.SetRow(2, table.rows()[2].Freed());
  EXPECT_EQ(table.births(), 7U);
  EXPECT_EQ(table.rows()[2].birth, 7U) << "another row must not get it";
  EXPECT_TRUE(SlotTable::IsOneEra(7, table.NextEra() - 1));
  EXPECT_FALSE(SlotTable::IsOneEra(7, table.NextEra()));
}

// Of the moved records that came since, newer ones of their keys may have been appended from their
// horizon on.
TEST(SlotTableTest, WhatCameSinceBeginsWithTheLowestHorizonOfANewRow) {
  SlotTable table = MakeTable();
  EXPECT_EQ(table.FirstSince({500, 0}), 500U);
  EXPECT_EQ(table.CountSince({500, 0}, 600), 100U);
  table.BeginRows(600);
  table.SetRow(3, Born(MovedRow(300, 10), 4));
  table.SetRow(4, Born(MovedRow(450, 20), 6));
  table.SetRow(5, Born(RunRow(3), 7));
  EXPECT_EQ(table.FirstSince({500, 7}), 500U);
  EXPECT_EQ(table.FirstSince({500, 5}), 450U);
  EXPECT_EQ(table.FirstSince({500, 3}), 300U);
  EXPECT_EQ(table.FirstSince({200, 3}), 200U);
  EXPECT_EQ(table.CountSince({500, 7}, 600), 100U);
  EXPECT_EQ(table.CountSince({500, 5}, 600), 150U + 20U);
  EXPECT_EQ(table.CountSince({500, 3}, 600), 300U + 30U);
  table.SetRow(3, table.rows()[3].Freed());
  EXPECT_EQ(table.FirstSince({500, 3}), 450U) << "a free row holds nothing";
}

// A bucket that begins to have rows holds the same records in the same slots.
TEST(SlotTableTest, BeginRowsChangesNoSlot) {
  for (const uint64_t count :
       {uint64_t{0}, uint64_t{1}, kTableRow - 1, kTableRow, kTableRow + 1, 3 * kTableRow}) {
    SlotTable table = MakeTable();
    table.BeginRows(count);
    EXPECT_TRUE(table.has_rows());
    EXPECT_EQ(table.rows().size(), (count + kTableRow - 1) / kTableRow);
    EXPECT_EQ(table.SlotEnd(count), (count + kTableRow - 1) / kTableRow * kTableRow);
    EXPECT_EQ(table.RunEnd(), table.SlotEnd(count));
    for (uint64_t slot = 0; slot < count + 2 * kTableRow; ++slot) {
      ASSERT_EQ(table.Holds(slot, count), slot < count) << slot;
      if (slot >= count) continue;
      ASSERT_EQ(table.SlotOf(slot), slot);
      ASSERT_EQ(table.SequenceEnd(slot), slot + 1);
    }
  }
}

TEST(SlotTableTest, ARunIsFoundInItsRowAlone) {
  SlotTable table = MakeTable();
  table.SetRow(2, RunRow(40));
  table.SetRow(0, RunRow(41));
  EXPECT_EQ(table.rows().size(), 3u);
  EXPECT_TRUE(table.rows()[1].free());
  uint64_t slot = 0;
  EXPECT_TRUE(table.SlotOf(40 * kTableRow + 3, &slot));
  EXPECT_EQ(slot, 2 * kTableRow + 3);
  EXPECT_TRUE(table.SlotOf(42 * kTableRow - 1, &slot));
  EXPECT_EQ(slot, kTableRow - 1);
  EXPECT_FALSE(table.SlotOf(42 * kTableRow, &slot));
  EXPECT_FALSE(table.SlotOf(40 * kTableRow - 1, &slot));
  EXPECT_FALSE(table.SlotOf(0, &slot));
  EXPECT_EQ(table.RunEnd(), 42 * kTableRow);
  uint64_t sequence = 0;
  EXPECT_TRUE(table.SequenceOf(2 * kTableRow + 3, &sequence));
  EXPECT_EQ(sequence, 40 * kTableRow + 3);
  EXPECT_FALSE(table.SequenceOf(kTableRow, &sequence)) << "a free row";
  EXPECT_FALSE(table.SequenceOf(3 * kTableRow, &sequence)) << "no row";
}

TEST(SlotTableTest, ARowThatIsGivenToAnotherRunForgetsTheFirst) {
  SlotTable table = MakeTable();
  table.SetRow(1, RunRow(5));
  table.SetRow(1, RunRow(9));
  uint64_t slot = 0;
  EXPECT_FALSE(table.SlotOf(5 * kTableRow, &slot));
  EXPECT_TRUE(table.SlotOf(9 * kTableRow, &slot));
  table.SetRow(1, Row());
  EXPECT_FALSE(table.SlotOf(9 * kTableRow, &slot));
  EXPECT_EQ(table.RunEnd(), 0u);
  EXPECT_TRUE(table.runs().empty());
  EXPECT_TRUE(table.has_rows()) << "slots are sequence numbers never again";
}

TEST(SlotTableTest, OnlyTheCountedRecordsOfARunAreHeld) {
  SlotTable table = MakeTable();
  table.SetRow(1, RunRow(40));
  const uint64_t count = 40 * kTableRow + 10;
  EXPECT_TRUE(table.Holds(kTableRow + 9, count));
  EXPECT_FALSE(table.Holds(kTableRow + 10, count));
  EXPECT_FALSE(table.Holds(9, count)) << "a free row";
  EXPECT_FALSE(table.Holds(2 * kTableRow, count)) << "no row";
  EXPECT_FALSE(table.Holds(kTableRow, 40 * kTableRow));
}

TEST(SlotTableTest, FreedSlotsHoldNothing) {
  SlotTable table = MakeTable();
  Row row = RunRow(3);
  row.held = row.held - SlotsOf({0, 70, 255});
  table.SetRow(0, row);
  for (uint64_t i = 0; i < kTableRow; ++i) {
    EXPECT_EQ(table.Holds(i, 100 * kTableRow), i != 0 && i != 70 && i != 255) << i;
    EXPECT_EQ(table.SlotOf(3 * kTableRow + i), i) << "records keep their numbers";
  }
}

// The run goes through the slots that held nothing.
TEST(SlotTableTest, ARowThatIsFilledAgainHoldsKeptRecordsAndARun) {
  SlotTable table = MakeTable();
  Row row = RunRow(0, SlotsOf({2, 3, 100, 101, 102, 200}));
  row.number = 1000;
  row.held = kAllSlots - SlotsOf({7});
  table.SetRow(1, row);
  EXPECT_EQ(table.RunEnd(), 1006u);
  const uint64_t slots[] = {2, 3, 100, 101, 102, 200};
  for (uint64_t i = 0; i < 6; ++i) {
    const uint64_t slot = kTableRow + slots[i];
    EXPECT_EQ(table.SlotOf(1000 + i), slot);
    uint64_t sequence = 0;
    EXPECT_TRUE(table.SequenceOf(slot, &sequence));
    EXPECT_EQ(sequence, 1000 + i);
    EXPECT_EQ(table.SequenceEnd(slot), 1001 + i);
    EXPECT_TRUE(table.Holds(slot, 1001 + i));
    EXPECT_FALSE(table.Holds(slot, 1000 + i));
  }
  uint64_t slot = 0;
  EXPECT_FALSE(table.SlotOf(1006, &slot));
  EXPECT_FALSE(table.SlotOf(999, &slot));
  uint64_t sequence = 0;
  EXPECT_FALSE(table.SequenceOf(kTableRow + 4, &sequence)) << "kept";
  EXPECT_TRUE(table.Holds(kTableRow + 4, 0)) << "kept";
  EXPECT_FALSE(table.Holds(kTableRow + 7, 5000)) << "freed";
  EXPECT_EQ(table.SequenceEnd(kTableRow + 4), 1000u);
}

TEST(SlotTableTest, PiecesAreNeighbouringSlots) {
  SlotTable table = MakeTable();
  EXPECT_EQ(table.PieceFrom(10, 700).slot, 10u);
  EXPECT_EQ(table.PieceFrom(10, 700).count, 690u) << "without rows";
  Row row = RunRow(0, SlotsOf({2, 3, 100, 101, 102, 255}));
  row.number = 1000;
  table.SetRow(1, row);
  table.SetRow(2, {.kind = RowKind::kUsed, .number = 1006, .path = kAllSlots, .held = kAllSlots});
  const struct {
    uint64_t begin, end, slot, count;
  } pieces[] = {{1000, 2000, 258, 2},  {1001, 2000, 259, 1}, {1002, 2000, 356, 3},
                {1003, 1004, 357, 1},  {1005, 2000, 511, 1}, {1006, 1100, 512, 94},
                {1100, 2000, 606, 162}};
  for (const auto& each : pieces) {
    const SlotPiece piece = table.PieceFrom(each.begin, each.end);
    EXPECT_EQ(piece.slot, each.slot) << each.begin;
    EXPECT_EQ(piece.count, each.count) << each.begin;
  }
  EXPECT_EQ(table.PieceFrom(999, 2000).count, 0u);
  EXPECT_EQ(table.PieceFrom(1262, 2000).count, 0u);
}

TEST(SlotTableTest, RunEndFromIsTheEndOfTheRunOfThatRecord) {
  SlotTable table = MakeTable();
  Row row = RunRow(0, SlotsOf({2, 3, 100}));
  row.number = 1000;
  table.SetRow(1, row);
  table.SetRow(2, {.kind = RowKind::kUsed, .number = 1003, .path = kAllSlots, .held = kAllSlots});
  EXPECT_EQ(table.RunEndFrom(999), 999u) << "no row holds its run";
  EXPECT_EQ(table.RunEndFrom(1000), 1003u);
  EXPECT_EQ(table.RunEndFrom(1002), 1003u);
  EXPECT_EQ(table.RunEndFrom(1003), 1003 + kTableRow) << "the next run";
  EXPECT_EQ(table.RunEndFrom(1003 + kTableRow), 1003 + kTableRow);
}

// They hold as many records as they say, however many the bucket has.
TEST(SlotTableTest, MovedRowsMayBeShort) {
  for (const RowKind kind : {RowKind::kUsed, RowKind::kMoving}) {
    SlotTable table = MakeTable();
    table.SetRow(0, MovedRow(1000, 3, kind));
    EXPECT_TRUE(table.Holds(2, 0));
    EXPECT_FALSE(table.Holds(3, 5000));
    EXPECT_EQ(table.SequenceEnd(0), 1000u);
    EXPECT_EQ(table.SequenceEnd(2), 1000u);
    uint64_t sequence = 0;
    EXPECT_FALSE(table.SequenceOf(0, &sequence));
    EXPECT_EQ(table.RunEnd(), 0u);
  }
}

// The index names it, so a cleaner may not free its slot and keep another one.
TEST(SlotTableTest, TheLatestCopyLiesInTheRowThatWasMovedToLast) {
  SlotTable table = MakeTable();
  EXPECT_FALSE(table.IsLaterCopy(5, 5));
  Row filled_again = Born(RunRow(0), 9);
  table.SetRow(4, filled_again);
  table.SetRow(2, Born(MovedRow(300, 9), 5));
  table.SetRow(0, Born(MovedRow(300, 9, RowKind::kMoving), 6));
  table.SetRow(3, Born(MovedRow(301, 9), 7));
  const std::vector<uint32_t> order = {4, 2, 0, 3};
  for (size_t a = 0; a < order.size(); ++a) {
    for (size_t b = 0; b < order.size(); ++b) {
      EXPECT_EQ(table.IsLaterCopy(order[a] * kTableRow + 7, order[b] * kTableRow + 8), a > b)
          << a << ", " << b;
    }
  }
}

}  // namespace
}  // namespace engine_race::test

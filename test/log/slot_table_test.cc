#include "engine_race/log/slot_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "test/log/entry_test_util.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

using format::RowKind;

constexpr uint64_t kTableRow = 256;
constexpr uint64_t kCell = 32;
constexpr uint64_t kTableStoreId = 77;

SlotTable MakeTable() { return SlotTable(GeometryFrom(TinyLogOptions())); }
Row RunRow(uint64_t number) { return {.kind = RowKind::kRun, .number = number}; }
Row MovedRow(uint64_t number, uint32_t record_count, RowKind kind = RowKind::kMoved) {
  return {.kind = kind, .number = number, .record_count = record_count};
}

TEST(SlotTableTest, RowsAreAsLargeAsTheLargerGroupAndCutIntoEight) {
  EXPECT_EQ(MakeTable().row_records(), kTableRow);
  EXPECT_EQ(MakeTable().cell_records(), kCell);
  Options options = TinyLogOptions();
  options.value_group_bytes = 1 << 20;
  EXPECT_EQ(SlotTable(GeometryFrom(options)).row_records(), 256u);
  EXPECT_EQ(SlotTable(GeometryFrom(options)).cell_records(), 256u) << "a group of values";
  options.key_group_bytes = 128 << 10;
  EXPECT_EQ(SlotTable(GeometryFrom(options)).row_records(), 4096u);
  EXPECT_EQ(SlotTable(GeometryFrom(options)).cell_records(), 512u);
}

TEST(SlotTableTest, WithoutRowsSlotsAreSequenceNumbers) {
  const SlotTable table = MakeTable();
  EXPECT_FALSE(table.has_rows());
  EXPECT_EQ(table.SlotEnd(1000), 1000u);
  EXPECT_TRUE(table.Holds(999, 1000));
  EXPECT_FALSE(table.Holds(1000, 1000));
  EXPECT_EQ(table.OrderOf(7), 15u);
  EXPECT_EQ(table.SlotOf(123), 123u);
  uint64_t sequence = 0;
  EXPECT_TRUE(table.SequenceOf(123, &sequence));
  EXPECT_EQ(sequence, 123u);
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
      ASSERT_EQ(table.OrderOf(slot), 2 * slot + 1);
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

TEST(SlotTableTest, FreedCellsHoldNothing) {
  SlotTable table = MakeTable();
  Row row = RunRow(3);
  row.freed_cells = 0b10000101;
  table.SetRow(0, row);
  row = MovedRow(7, kCell + 5);
  row.freed_cells = 1;
  table.SetRow(1, row);
  for (uint64_t i = 0; i < kTableRow; ++i) {
    const uint64_t cell = i / kCell;
    EXPECT_EQ(table.Holds(i, 100 * kTableRow), cell != 0 && cell != 2 && cell != 7) << i;
    EXPECT_EQ(table.Holds(kTableRow + i, 100 * kTableRow), cell == 1 && i < kCell + 5) << i;
  }
}

// They hold as many records as they say, however many the bucket has.
TEST(SlotTableTest, MovedRowsMayBeShort) {
  for (const RowKind kind : {RowKind::kMoved, RowKind::kMoving}) {
    SlotTable table = MakeTable();
    table.SetRow(0, MovedRow(1000, 3, kind));
    EXPECT_TRUE(table.Holds(2, 0));
    EXPECT_FALSE(table.Holds(3, 5000));
    EXPECT_EQ(table.OrderOf(0), 2000u);
    EXPECT_EQ(table.OrderOf(2), 2000u);
    uint64_t sequence = 0;
    EXPECT_FALSE(table.SequenceOf(0, &sequence));
    EXPECT_EQ(table.RunEnd(), 0u);
  }
}

// A moved record is newer than all records that were appended before it was moved, and older than
// all later ones.
TEST(SlotTableTest, OrdersPutMovedRecordsBetweenAppendedOnes) {
  SlotTable table = MakeTable();
  table.SetRow(0, RunRow(3));
  table.SetRow(1, MovedRow(3 * kTableRow + 10, 1));
  EXPECT_GT(table.OrderOf(kTableRow), table.OrderOf(9));
  EXPECT_LT(table.OrderOf(kTableRow), table.OrderOf(10));
}

TEST(SlotTableTest, RowsComeInOrderOfTheirRecords) {
  SlotTable table = MakeTable();
  table.SetRow(6, RunRow(1));
  table.SetRow(0, RunRow(4));
  table.SetRow(1, MovedRow(2 * kTableRow, 5));                    // behind run 1, before run 4
  table.SetRow(3, MovedRow(4 * kTableRow + 3, 5));                // moved while run 4 was appended
  table.SetRow(4, MovedRow(5 * kTableRow, 5));                    // moved when run 4 was full
  table.SetRow(5, MovedRow(5 * kTableRow, 5, RowKind::kMoving));  // the same
  table.SetRow(7, RunRow(5));
  const std::vector<uint32_t> order = table.RowsInOrder();
  ASSERT_EQ(order.size(), 7u) << "free rows are left out";
  EXPECT_EQ(std::vector<uint32_t>(order.begin(), order.begin() + 4),
            (std::vector<uint32_t>{6, 1, 3, 0}));
  EXPECT_EQ(std::vector<uint32_t>({4, 5}),
            (std::vector<uint32_t>{std::min(order[4], order[5]), std::max(order[4], order[5])}));
  EXPECT_EQ(order[6], 7u);
}

KeyRecord RandomRecord(std::mt19937_64* random) {
  KeyRecord record;
  record.key = (*random)();
  record.tombstone = (*random)() % 4 == 0;
  record.value_hash = record.tombstone ? 0 : (*random)();
  return record;
}

void ExpectSame(const KeyRecord& found, const KeyRecord& wanted) {
  EXPECT_EQ(found.key, wanted.key);
  EXPECT_EQ(found.value_hash, wanted.value_hash);
  EXPECT_EQ(found.tombstone, wanted.tombstone);
}

// Numbers beside the widths of the fields that have parts of them.
const std::vector<uint64_t>& WideNumbers() {
  static const std::vector<uint64_t> numbers = [] {
    std::vector<uint64_t> made = {0, 1, kTableRow - 1, kTableRow};
    for (const uint32_t bits : {26, 27, 32, 35, 36, 47, 48}) {
      const uint64_t edge = uint64_t{1} << bits;
      made.insert(made.end(), {edge - kTableRow, edge - 2, edge - 1});
      if (bits < format::kSequenceBits) made.insert(made.end(), {edge, edge + 1, edge + kTableRow});
    }
    return made;
  }();
  return numbers;
}

TEST(SlotTableTest, AnAppendedEntryDecodesInAnyRowThatHoldsItsRun) {
  std::mt19937_64 random(3);
  const EntryCodec codec(kTableStoreId, 5);
  for (const uint64_t number : WideNumbers()) {
    const KeyRecord record = RandomRecord(&random);
    const format::KeyEntry entry = SlotTable::EncodeAppended(codec, record, number);
    KeyRecord found;
    ASSERT_TRUE(SlotTable::DecodeAppended(codec, entry, number, &found)) << number;
    ExpectSame(found, record);
    EXPECT_EQ(found.sequence, 2 * number + 1);
    for (const uint32_t row : {0u, 9u}) {
      SlotTable table = MakeTable();
      table.SetRow(row, RunRow(number / kTableRow));
      const uint64_t slot = row * kTableRow + number % kTableRow;
      ASSERT_TRUE(table.Decode(codec, entry, slot, &found)) << number;
      ExpectSame(found, record);
      EXPECT_EQ(found.sequence, 2 * number + 1);
      EXPECT_EQ(found.slot, slot);
      EXPECT_FALSE(table.Decode(codec, entry, slot ^ 1, &found)) << number;
    }
  }
}

TEST(SlotTableTest, AnAppendedEntryDecodesWithItsNumberAlone) {
  std::mt19937_64 random(4);
  const EntryCodec codec(kTableStoreId, 5);
  for (const uint64_t number : WideNumbers()) {
    const format::KeyEntry entry = SlotTable::EncodeAppended(codec, RandomRecord(&random), number);
    KeyRecord found;
    for (uint32_t bit = 0; bit < format::kSequenceBits; ++bit) {
      EXPECT_FALSE(SlotTable::DecodeAppended(codec, entry, number ^ uint64_t{1} << bit, &found))
          << number << ", bit " << bit;
    }
    for (uint64_t other = 0; other < 2000; ++other) {
      if (other == number) continue;
      EXPECT_FALSE(SlotTable::DecodeAppended(codec, entry, other, &found)) << number;
    }
  }
}

TEST(SlotTableTest, EveryFlippedBitOfAnEntryIsSeen) {
  std::mt19937_64 random(6);
  const EntryCodec codec(kTableStoreId, 5);
  SlotTable table = MakeTable();
  table.SetRow(3, MovedRow((uint64_t{1} << 48) - 1, kTableRow));
  for (const uint64_t number : WideNumbers()) {
    const KeyRecord record = RandomRecord(&random);
    const format::KeyEntry appended = SlotTable::EncodeAppended(codec, record, number);
    const format::KeyEntry moved =
        SlotTable::EncodeMoved(codec, record, 3 * kTableRow + 7, (uint64_t{1} << 48) - 1);
    for (int bit = 0; bit < 256; ++bit) {
      KeyRecord found;
      EXPECT_FALSE(SlotTable::DecodeAppended(codec, WithFlippedBit(appended, bit), number, &found))
          << bit;
      EXPECT_FALSE(table.Decode(codec, WithFlippedBit(moved, bit), 3 * kTableRow + 7, &found))
          << bit;
    }
  }
}

TEST(SlotTableTest, AMovedEntryDecodesInItsSlotOfARowOfItsNumberAlone) {
  std::mt19937_64 random(7);
  const EntryCodec codec(kTableStoreId, 5);
  for (const uint64_t number : WideNumbers()) {
    const KeyRecord record = RandomRecord(&random);
    const uint64_t slot = 2 * kTableRow + 8;
    const format::KeyEntry entry = SlotTable::EncodeMoved(codec, record, slot, number);
    for (const RowKind kind : {RowKind::kMoved, RowKind::kMoving}) {
      SlotTable table = MakeTable();
      table.SetRow(2, MovedRow(number, kTableRow, kind));
      table.SetRow(1, MovedRow(number, kTableRow, kind));
      KeyRecord found;
      ASSERT_TRUE(table.Decode(codec, entry, slot, &found)) << number;
      ExpectSame(found, record);
      EXPECT_EQ(found.sequence, 2 * number);
      EXPECT_EQ(found.slot, slot);
      EXPECT_FALSE(table.Decode(codec, entry, slot + 1, &found));
      EXPECT_FALSE(table.Decode(codec, entry, kTableRow + 8, &found))
          << "another row of that number";
      table.SetRow(2, MovedRow(number ^ 1, kTableRow, kind));
      EXPECT_FALSE(table.Decode(codec, entry, slot, &found)) << "what the row held before";
      table.SetRow(2, RunRow(number / kTableRow));
      EXPECT_FALSE(table.Decode(codec, entry, slot, &found)) << "a run";
    }
  }
}

}  // namespace
}  // namespace engine_race::test

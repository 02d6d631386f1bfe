// Entries of records, as the rows of their slots decode them.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "engine_race/log/slot_table.h"
#include "test/log/entry_test_util.h"
#include "test/log/slot_table_test_util.h"

namespace engine_race::test {
namespace {

using format::RowKind;

constexpr uint64_t kTableStoreId = 77;

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
    EXPECT_EQ(found.sequence, number);
    for (const uint32_t row : {0u, 9u}) {
      SlotTable table = MakeTable();
      table.SetRow(row, RunRow(number / kTableRow));
      const uint64_t slot = row * kTableRow + number % kTableRow;
      ASSERT_TRUE(table.Decode(codec, entry, slot, &found)) << number;
      ExpectSame(found, record);
      EXPECT_EQ(found.sequence, number);
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
  table.SetRow(3, Sealed(MovedRow(uint64_t{1} << 48, kTableRow), kSealMask));
  for (const uint64_t number : WideNumbers()) {
    KeyRecord record = RandomRecord(&random);
    const format::KeyEntry appended = SlotTable::EncodeAppended(codec, record, number);
    record.sequence = number;
    const format::KeyEntry moved =
        SlotTable::EncodeMoved(codec, record, 3 * kTableRow + 7, kSealMask);
    KeyRecord intact;
    ASSERT_TRUE(table.Decode(codec, moved, 3 * kTableRow + 7, &intact));
    for (int bit = 0; bit < 256; ++bit) {
      KeyRecord found;
      EXPECT_FALSE(SlotTable::DecodeAppended(codec, WithFlippedBit(appended, bit), number, &found))
          << bit;
      EXPECT_FALSE(table.Decode(codec, WithFlippedBit(moved, bit), 3 * kTableRow + 7, &found))
          << bit;
    }
  }
}

TEST(SlotTableTest, AMovedEntryDecodesInItsSlotOfARowOfItsSealAlone) {
  std::mt19937_64 random(7);
  const EntryCodec codec(kTableStoreId, 5);
  for (const uint64_t number : WideNumbers()) {
    KeyRecord record = RandomRecord(&random);
    record.sequence = number;
    const uint64_t seal = random() % kSealMask + 1;
    const uint64_t slot = 2 * kTableRow + 8;
    const format::KeyEntry entry = SlotTable::EncodeMoved(codec, record, slot, seal);
    for (const RowKind kind : {RowKind::kUsed, RowKind::kMoving}) {
      SlotTable table = MakeTable();
      table.SetRow(2, Sealed(MovedRow(number + 1, kTableRow, kind), seal));
      table.SetRow(1, Sealed(MovedRow(number + 1, kTableRow, kind), seal));
      KeyRecord found;
      ASSERT_TRUE(table.Decode(codec, entry, slot, &found)) << number;
      ExpectSame(found, record);
      EXPECT_EQ(found.sequence, number);
      EXPECT_EQ(found.slot, slot);
      EXPECT_FALSE(table.Decode(codec, entry, slot + 1, &found));
      EXPECT_FALSE(table.Decode(codec, entry, kTableRow + 8, &found)) << "another row of that seal";
      for (uint32_t bit = 0; bit < format::kSealBits; ++bit) {
        table.SetRow(2, Sealed(MovedRow(number + 1, kTableRow, kind), seal ^ uint64_t{1} << bit));
        EXPECT_FALSE(table.Decode(codec, entry, slot, &found)) << "what the row held before";
      }
      table.SetRow(2, RunRow(number / kTableRow));
      EXPECT_FALSE(table.Decode(codec, entry, slot, &found)) << "a run";
    }
  }
}

// Views show records of rows that were freed.
TEST(SlotTableTest, EntriesDecodeAfterTheirRowWasFreed) {
  std::mt19937_64 random(9);
  const EntryCodec codec(kTableStoreId, 5);
  for (const uint64_t number : WideNumbers()) {
    KeyRecord record = RandomRecord(&random);
    record.sequence = number;
    const uint64_t slot = kTableRow + number % kTableRow;
    const format::KeyEntry appended = SlotTable::EncodeAppended(codec, record, number);
    const format::KeyEntry moved = SlotTable::EncodeMoved(codec, record, slot, 77);
    SlotTable table = MakeTable();
    KeyRecord found;
    table.SetRow(1, RunRow(number / kTableRow).Freed());
    ASSERT_TRUE(table.Decode(codec, appended, slot, &found));
    EXPECT_EQ(found.sequence, number);
    EXPECT_EQ(found.slot, slot);
    EXPECT_FALSE(table.Decode(codec, moved, slot, &found));
    table.SetRow(1, Sealed(MovedRow(number + 1, kTableRow), 77).Freed());
    ASSERT_TRUE(table.Decode(codec, moved, slot, &found));
    EXPECT_EQ(found.sequence, number);
    EXPECT_EQ(found.slot, slot);
  }
}

// A row may have been moved to, and filled again since.
TEST(SlotTableTest, KeptEntriesDecodeByTheirOwnNumbersAndTheSeal) {
  std::mt19937_64 random(11);
  const EntryCodec codec(kTableStoreId, 5);
  SlotTable table = MakeTable();
  Row row = Sealed(RunRow(0, SlotsOf({1})), 77);
  row.held = kAllSlots;
  row.number = row.horizon = uint64_t{1} << 48;
  table.SetRow(1, row);
  for (const uint64_t number : WideNumbers()) {
    KeyRecord record = RandomRecord(&random);
    record.sequence = number;
    const uint64_t slot = kTableRow + 8;
    KeyRecord found;
    ASSERT_TRUE(
        table.Decode(codec, SlotTable::EncodeAppended(codec, record, number), slot, &found));
    EXPECT_EQ(found.sequence, number);
    ASSERT_TRUE(table.Decode(codec, SlotTable::EncodeMoved(codec, record, slot, 77), slot, &found));
    EXPECT_EQ(found.sequence, number);
    EXPECT_FALSE(
        table.Decode(codec, SlotTable::EncodeMoved(codec, record, slot + 1, 77), slot, &found));
    EXPECT_FALSE(table.Decode(codec, SlotTable::EncodeMoved(codec, record, kTableRow + 1, 77),
                              kTableRow + 1, &found))
        << "the run's";
  }
}

// An entry that was written over another one in the same bucket must not pass for it.
TEST(SlotTableTest, KeptEntriesAreOlderThanTheRunOrTheMove) {
  std::mt19937_64 random(12);
  const EntryCodec codec(kTableStoreId, 5);
  const uint64_t slot = kTableRow + 8;
  for (const uint64_t number : WideNumbers()) {
    KeyRecord record = RandomRecord(&random);
    record.sequence = number;
    const format::KeyEntry appended = SlotTable::EncodeAppended(codec, record, number);
    const format::KeyEntry moved = SlotTable::EncodeMoved(codec, record, slot, 77);
    for (const uint64_t bound : {number, number + 1}) {
      SlotTable table = MakeTable();
      Row row = Sealed(RunRow(0, SlotsOf({1})), 77);
      row.held = kAllSlots;
      row.number = row.horizon = bound;
      table.SetRow(1, row);
      KeyRecord found;
      EXPECT_EQ(table.Decode(codec, appended, slot, &found), bound > number) << number;
      EXPECT_EQ(table.Decode(codec, moved, slot, &found), bound > number) << number;
      table.SetRow(1, row.Freed());
      EXPECT_TRUE(table.Decode(codec, appended, slot, &found)) << "a view's";
      EXPECT_TRUE(table.Decode(codec, moved, slot, &found)) << "a view's";
    }
  }
}

}  // namespace
}  // namespace engine_race::test

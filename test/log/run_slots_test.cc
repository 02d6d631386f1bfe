#include "engine_race/log/run_slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace engine_race {
namespace {

constexpr uint32_t kRunRow = 256;

Row RunOf(uint64_t number, const SlotBits& path = SlotBits::First(kRunRow)) {
  return {.kind = format::RowKind::kUsed, .number = number, .path = path, .held = path};
}

TEST(RunSlotsTest, ARunTellsTheSequenceNumbersOfItsSlots) {
  RunSlots runs(kRunRow);
  runs.Set(1500, RunOf(10007));
  const uint64_t first_slot = 1500 * kRunRow;
  EXPECT_TRUE(runs.IsBelow(first_slot + 9, 10007 + 10));
  EXPECT_FALSE(runs.IsBelow(first_slot + 10, 10007 + 10));
  EXPECT_FALSE(runs.IsBelow(first_slot, 10007));
  EXPECT_TRUE(runs.IsBelow(first_slot + kRunRow - 1, 10007 + kRunRow));
}

TEST(RunSlotsTest, RowsAreApartHoweverManyThereAre) {
  RunSlots runs(kRunRow);
  const std::vector<uint32_t> rows = {0,  1,   7,   8,   9,   15,   16,   63,   64,
                                      65, 127, 128, 255, 256, 4095, 4096, 70000};
  for (const uint32_t row : rows) runs.Set(row, RunOf(uint64_t{row} * 1000));
  for (const uint32_t row : rows) {
    const uint64_t slot = uint64_t{row} * kRunRow + 5;
    EXPECT_FALSE(runs.IsBelow(slot, uint64_t{row} * 1000 + 5)) << row;
    EXPECT_TRUE(runs.IsBelow(slot, uint64_t{row} * 1000 + 6)) << row;
  }
}

TEST(RunSlotsTest, OnlyTheSlotsOfThePathHaveNumbersOfTheRun) {
  SlotBits path;
  for (const uint32_t slot : {3, 64, 65, 255}) path.Add(slot);
  RunSlots runs(kRunRow);
  runs.Set(0, RunOf(500, path));
  EXPECT_FALSE(runs.IsBelow(3, 500));
  EXPECT_TRUE(runs.IsBelow(3, 501));
  EXPECT_FALSE(runs.IsBelow(65, 502));
  EXPECT_TRUE(runs.IsBelow(65, 503));
  EXPECT_FALSE(runs.IsBelow(255, 503));
  EXPECT_TRUE(runs.IsBelow(4, 0)) << "kept";
}

TEST(RunSlotsTest, RecordsOfRowsWithoutARunAreKept) {
  RunSlots runs(kRunRow);
  runs.Set(3, RunOf(uint64_t{1} << 47));
  EXPECT_FALSE(runs.IsBelow(3 * kRunRow, uint64_t{1} << 47));
  runs.Set(3, Row());
  EXPECT_TRUE(runs.IsBelow(3 * kRunRow, 0));
  EXPECT_TRUE(runs.IsBelow(4 * kRunRow, 0)) << "a row beside it";
  EXPECT_TRUE(runs.IsBelow(1999 * kRunRow, 0)) << "a row far away";
}

TEST(RunSlotsTest, LoggedSlotsGoByRowsWhereThereAreSome) {
  const LoggedSlots plain(100);
  EXPECT_TRUE(plain.Contains(99));
  EXPECT_FALSE(plain.Contains(100));
  RunSlots runs(kRunRow);
  runs.Set(0, RunOf(7000));
  runs.Set(1, RunOf(2000));
  const LoggedSlots logged(7005, &runs);
  EXPECT_TRUE(logged.Contains(4));
  EXPECT_FALSE(logged.Contains(5));
  EXPECT_TRUE(logged.Contains(kRunRow + 200));
  EXPECT_TRUE(logged.Contains(2 * kRunRow)) << "moved";
}

// A kept slot may be taken for one of the run's while the row changes. It is never taken for one of
// a number that only the new run has.
TEST(RunSlotsTest, KeptSlotsStayBelowTheEndOfBothRuns) {
  RunSlots runs(kRunRow);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint32_t i = 0; i < 20000; ++i) {
      runs.Set(i % 4096, i % 2 == 0 ? RunOf(1000) : RunOf(2000, SlotBits::First(9)));
    }
    done.store(true);
  });
  uint64_t checked_count = 0;
  while (!done.load() || checked_count == 0) {
    for (uint64_t row = 0; row < 4096; ++row, ++checked_count) {
      ASSERT_TRUE(runs.IsBelow(row * kRunRow + 200, 2000 + kRunRow)) << row;
    }
  }
  writer.join();
}

}  // namespace
}  // namespace engine_race

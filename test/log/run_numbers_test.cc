#include "engine_race/log/run_numbers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace engine_race {
namespace {

constexpr uint32_t kRunRow = 256;

TEST(RunNumbersTest, ARunTellsTheSequenceNumbersOfItsSlots) {
  RunNumbers numbers(/*row_count=*/2000, kRunRow);
  numbers.SetRun(1500, 40);
  const uint64_t first_slot = 1500 * kRunRow;
  EXPECT_TRUE(numbers.IsBelow(first_slot + 9, 40 * kRunRow + 10));
  EXPECT_FALSE(numbers.IsBelow(first_slot + 10, 40 * kRunRow + 10));
  EXPECT_FALSE(numbers.IsBelow(first_slot, 40 * kRunRow));
  EXPECT_TRUE(numbers.IsBelow(first_slot + kRunRow - 1, 41 * kRunRow));
}

TEST(RunNumbersTest, TheFirstRunIsARunToo) {
  RunNumbers numbers(/*row_count=*/1, kRunRow);
  numbers.SetRun(0, 0);
  EXPECT_TRUE(numbers.IsBelow(0, 1));
  EXPECT_FALSE(numbers.IsBelow(0, 0));
}

TEST(RunNumbersTest, RecordsOfRowsWithoutARunWereMovedThere) {
  RunNumbers numbers(/*row_count=*/2000, kRunRow);
  numbers.SetRun(3, uint64_t{1} << 39);
  EXPECT_FALSE(numbers.IsBelow(3 * kRunRow, uint64_t{1} << 47));
  EXPECT_TRUE(numbers.IsBelow(3 * kRunRow, (uint64_t{1} << 47) + 1));
  numbers.Clear(3);
  EXPECT_TRUE(numbers.IsBelow(3 * kRunRow, 0));
  EXPECT_TRUE(numbers.IsBelow(4 * kRunRow, 0)) << "a row beside it";
  EXPECT_TRUE(numbers.IsBelow(1999 * kRunRow, 0)) << "a row far away";
}

TEST(RunNumbersTest, LoggedSlotsGoByRowsWhereThereAreSome) {
  const LoggedSlots plain(100);
  EXPECT_TRUE(plain.Contains(99));
  EXPECT_FALSE(plain.Contains(100));
  RunNumbers numbers(/*row_count=*/4, kRunRow);
  numbers.SetRun(0, 7);
  numbers.SetRun(1, 2);
  const LoggedSlots logged(7 * kRunRow + 5, &numbers);
  EXPECT_TRUE(logged.Contains(4));
  EXPECT_FALSE(logged.Contains(5));
  EXPECT_TRUE(logged.Contains(kRunRow + 200));
  EXPECT_TRUE(logged.Contains(2 * kRunRow)) << "moved";
}

// A reader sees the run that a row had, or the one that it has now.
TEST(RunNumbersTest, ReadersSeeWholeNumbers) {
  constexpr uint64_t kLow = 0x1111111;
  constexpr uint64_t kHigh = uint64_t{0x2222222} << 12;
  RunNumbers numbers(/*row_count=*/4096, kRunRow);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint32_t i = 0; i < 20000; ++i) numbers.SetRun(i % 4096, i % 2 == 0 ? kLow : kHigh);
    done.store(true);
  });
  uint64_t checked_count = 0;
  while (!done.load() || checked_count == 0) {
    for (uint64_t row = 0; row < 4096; ++row, ++checked_count) {
      ASSERT_TRUE(numbers.IsBelow(row * kRunRow, kHigh * kRunRow + 1)) << row;
    }
  }
  writer.join();
}

}  // namespace
}  // namespace engine_race

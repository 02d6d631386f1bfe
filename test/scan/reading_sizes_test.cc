#include "engine_race/scan/reading_sizes.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace engine_race::test {
namespace {

const BufferLayout kLayout;
const uint32_t kWindowRecords = kLayout.window_records();
const uint32_t kWalkRecords = kLayout.walk_records();

// A walk that asks for each `step`th value. How many values its readings had.
std::vector<uint32_t> Walk(ReadingSizes* ahead, uint32_t value_count, uint32_t step = 1) {
  std::vector<uint32_t> readings;
  ahead->BeginWalk();
  uint64_t end = 0;  // of what is at hand
  for (uint64_t i = 0; i < value_count; ++i) {
    const uint64_t at = i * step;
    if (at >= end) {
      readings.push_back(ahead->NextCount());
      ahead->CountReading(readings.back());
      end = at + readings.back();
    }
    ahead->CountValue();
  }
  return readings;
}

TEST(ReadingSizesTest, ALongWalkReadsEverMoreAtOnce) {
  ReadingSizes ahead(kLayout);
  EXPECT_EQ(Walk(&ahead, 127), (std::vector<uint32_t>{1, 2, 4, 8, 16, 32, 64}));
  const std::vector<uint32_t> readings = Walk(&ahead, 10'000);
  EXPECT_EQ(readings.front(), kWindowRecords) << "the walk before may say little";
  EXPECT_EQ(readings.back(), kWalkRecords);
}

TEST(ReadingSizesTest, AWalkLikeTheOneBeforeNeedsOneReading) {
  ReadingSizes ahead(kLayout);
  Walk(&ahead, 10);
  EXPECT_EQ(Walk(&ahead, 10), std::vector<uint32_t>{10});
  EXPECT_EQ(Walk(&ahead, 1), std::vector<uint32_t>{10});
  EXPECT_EQ(Walk(&ahead, 1), std::vector<uint32_t>{1});
  Walk(&ahead, 100);
  EXPECT_EQ(Walk(&ahead, 101), (std::vector<uint32_t>{64, 36, 72}));
  // One that asks for no value says nothing.
  Walk(&ahead, 7);
  ahead.BeginWalk();
  EXPECT_EQ(Walk(&ahead, 7), std::vector<uint32_t>{7});
}

TEST(ReadingSizesTest, ALongWalkBeginsItsNextReadingOnceHalfWay) {
  for (const auto& [count, wanted] :
       {std::pair(kWindowRecords, 0U), std::pair(2 * kWindowRecords, 4 * kWindowRecords),
        std::pair(kWalkRecords - 1, kWalkRecords), std::pair(kWalkRecords, kWalkRecords)}) {
    ReadingSizes ahead(kLayout);
    ahead.BeginWalk();
    ahead.CountReading(count);
    for (uint32_t i = 1; i <= count; ++i) {
      ahead.CountValue();
      EXPECT_EQ(ahead.AheadCount(), i == count / 2 ? wanted : 0U) << count << ", " << i;
    }
  }
}

TEST(ReadingSizesTest, AWalkThatLeavesValuesOutReadsFew) {
  for (const uint32_t step : {2U, 10U, 1000U}) {
    ReadingSizes ahead(kLayout);
    uint64_t read_count = 0;
    for (const uint32_t count : Walk(&ahead, 1000, step)) read_count += count;
    EXPECT_LE(read_count, 2 * 1000U) << step;
  }
}

TEST(ReadingSizesTest, AfterARefusalValuesAreReadAloneForAWhile) {
  ReadingSizes ahead(kLayout);
  Walk(&ahead, 100);
  ahead.BeginWalk();
  EXPECT_EQ(ahead.NextCount(), kWindowRecords);
  ahead.CountRefusal();
  for (uint32_t i = 0; i < kWindowRecords; ++i) {
    EXPECT_EQ(ahead.NextCount(), 1u);
    ahead.CountReading(1);
    ahead.CountValue();
  }
  EXPECT_GT(ahead.NextCount(), 1u);
}

}  // namespace
}  // namespace engine_race::test

#include "engine_race/reclaim/row_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace engine_race {
namespace {

constexpr uint32_t kRowRecords = 256;
constexpr uint32_t kBuckets = 1024;
constexpr uint64_t kMany = 1000;

using Rows = std::vector<uint32_t>;

Geometry Buckets(uint32_t bucket_count, uint32_t row_records = kRowRecords,
                 uint32_t value_bytes = kValueBytes) {
  Geometry geometry;
  geometry.layout = ValueLayout(value_bytes);
  geometry.bucket_count = bucket_count;
  geometry.key_group_bytes = row_records * kKeyEntryBytes;
  return geometry;
}

TEST(RowChoiceTest, ABucketHasTheRowsOfItsLimitAndAFewInAnyCase) {
  EXPECT_EQ(SlotLimit(/*live_count=*/7200, /*dead_percent=*/28, Buckets(kBuckets)), 10000u);
  EXPECT_EQ(SlotLimit(16 * kRowRecords, /*dead_percent=*/1, Buckets(kBuckets)), 18 * kRowRecords);
  EXPECT_EQ(SlotLimit(100, /*dead_percent=*/1, Buckets(kBuckets)), 125u) << "a quarter at most";
  EXPECT_EQ(SlotLimit(0, /*dead_percent=*/99, Buckets(kBuckets)), 0u);
  EXPECT_EQ(RowLimit(11 * kRowRecords + 127, Buckets(kBuckets)), 11u);
  EXPECT_EQ(RowLimit(11 * kRowRecords + 128, Buckets(kBuckets)), 12u);
  EXPECT_EQ(RowLimit(5 * kRowRecords + 1, Buckets(kBuckets)), 6u) << "of few rows none less";
  EXPECT_EQ(RowLimit(0, Buckets(kBuckets)), 3u);
  EXPECT_EQ(RowLimit(0, Buckets(2)), 4u);
  EXPECT_EQ(RowLimit(0, Buckets(1)), 8u);
  EXPECT_EQ(RowLimit(0, Buckets(1, /*row_records=*/128)), 16u);
  EXPECT_EQ(RowLimit(0, Buckets(5, /*row_records=*/128)), 3u);
  // 8 MiB, or three rows.
  EXPECT_EQ(RowLimit(0, Buckets(16, kRowRecords, /*value_bytes=*/512)), 4u);
  EXPECT_EQ(RowLimit(0, Buckets(1, kRowRecords, /*value_bytes=*/16384)), 3u);
}

TEST(RowChoiceTest, RowsAreSpareBeyondTheLimitByARow) {
  const auto spare = [](uint64_t row_count, uint64_t limit, uint32_t bucket_count = kBuckets) {
    return SpareRows(row_count * kRowRecords, limit, Buckets(bucket_count));
  };
  EXPECT_EQ(spare(12, 12 * kRowRecords), 0u);
  EXPECT_EQ(spare(12, 11 * kRowRecords), 0u);
  EXPECT_EQ(spare(12, 11 * kRowRecords - 1), 1u);
  EXPECT_EQ(spare(14, 11 * kRowRecords), 3u);
  // Of many rows a sixteenth.
  EXPECT_EQ(spare(170, 160 * kRowRecords), 0u);
  EXPECT_EQ(spare(171, 160 * kRowRecords), 11u);
  // Three rows may be taken again.
  EXPECT_EQ(spare(3, 2 * kRowRecords), 0u);
  EXPECT_EQ(spare(3, 2 * kRowRecords - 1), 1u);
  EXPECT_EQ(spare(8, 6 * kRowRecords + 128, /*bucket_count=*/1), 0u);
  EXPECT_EQ(spare(8, 6 * kRowRecords + 128), 1u);
}

TEST(RowChoiceTest, RowsThatWinNothingStay) {
  EXPECT_TRUE(ChooseRows({}, kRowRecords, kMany, kMany).rows.empty());
  EXPECT_TRUE(ChooseRows({{0, 100, 100}}, kRowRecords, kMany, kMany).rows.empty());
  EXPECT_TRUE(ChooseRows({{0, 128, 128}, {1, 129, 129}}, kRowRecords, kMany, kMany).rows.empty());
}

TEST(RowChoiceTest, TheSparsestRowsAreChosen) {
  const std::vector<MovableRow> rows = {
      {0, 200, 200}, {1, 10, 10}, {2, 250, 250}, {3, 20, 20}, {4, 200, 200}};
  // Two rows become one, and with the next one no more is won.
  EXPECT_EQ(ChooseRows(rows, kRowRecords, kMany, kMany).rows, (Rows{1, 3, 0}));
  EXPECT_EQ(ChooseRows(rows, kRowRecords, 1, kMany).rows, (Rows{1, 3}));
}

TEST(RowChoiceTest, NoMoreIsChosenThanIsWanted) {
  std::vector<MovableRow> rows;
  for (uint32_t i = 0; i < 100; ++i) rows.push_back({i, 64, 64});
  EXPECT_EQ(ChooseRows(rows, kRowRecords, kMany, kMany).rows.size(), 100u);
  EXPECT_EQ(ChooseRows(rows, kRowRecords, 3, kMany).rows.size(), 4u) << "into one row";
  EXPECT_TRUE(ChooseRows(rows, kRowRecords, 0, kMany).rows.empty());
}

TEST(RowChoiceTest, WithLittleRoomAnotherCleaningGoesOn) {
  std::vector<MovableRow> rows;
  for (uint32_t i = 0; i < 100; ++i) rows.push_back({i, 64, 64});
  const RowChoice choice = ChooseRows(rows, kRowRecords, kMany, /*room=*/2);
  EXPECT_EQ(choice.rows.size(), 8u);
  EXPECT_TRUE(choice.has_more);
  EXPECT_TRUE(ChooseRows(rows, kRowRecords, kMany, /*room=*/0).has_more);
  EXPECT_FALSE(ChooseRows(rows, kRowRecords, kMany, kMany).has_more);
}

TEST(SparseRowsTest, AllThatAreNotAlmostFullAreChosen) {
  const std::vector<MovableRow> rows = {{0, 241, 250}, {1, 240, 250}, {2, 200, 256}, {3, 1, 9}};
  const RowChoice choice = ChooseSparse(rows, kRowRecords, kMany);
  EXPECT_EQ(choice.rows, (Rows{3, 2, 1})) << "a sixteenth is 16 slots";
  EXPECT_FALSE(choice.has_more);
}

TEST(SparseRowsTest, OneRowIsChosenUnlessItsRecordsLieTogetherAtItsBeginning) {
  EXPECT_TRUE(ChooseSparse({}, kRowRecords, kMany).rows.empty());
  EXPECT_EQ(ChooseSparse({{7, 100, 101}}, kRowRecords, kMany).rows, (Rows{7}));
  EXPECT_TRUE(ChooseSparse({{7, 100, 100}}, kRowRecords, kMany).rows.empty());
  EXPECT_TRUE(ChooseSparse({{7, 100, 100}, {8, 250, 256}}, kRowRecords, kMany).rows.empty());
}

TEST(SparseRowsTest, WithLittleRoomAnotherCleaningGoesOnUnlessNothingIsWon) {
  const std::vector<MovableRow> rows = {{0, 200, 256}, {1, 200, 256}, {2, 200, 256}};
  const RowChoice choice = ChooseSparse(rows, kRowRecords, /*room=*/2);
  EXPECT_EQ(choice.rows, (Rows{0, 1}));
  EXPECT_TRUE(choice.has_more);
  EXPECT_TRUE(ChooseSparse(rows, kRowRecords, /*room=*/1).rows.empty());
}

}  // namespace
}  // namespace engine_race

#include "engine_race/index/part_row.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "test/test_util.h"

namespace engine_race {
namespace {

using test::kLastKey;

// A part whose record of key k lies in slot k.
std::unique_ptr<Part> PartWith(const std::vector<uint64_t>& keys) {
  auto part = std::make_unique<Part>();
  const CellMap map =
      CellMap::Over(keys.front(), keys.back(), SortedRun::CellCountFor(keys.size()));
  EXPECT_TRUE(SortedRun::Create(keys.size(), map, nullptr, &part->run, Placement()).ok());
  for (size_t i = 0; i < keys.size(); ++i) {
    part->run.mutable_keys()[i] = keys[i];
    part->run.mutable_refs()[i].Store(ValueRef(static_cast<uint32_t>(keys[i]), 0, false));
  }
  part->run.FillCells();
  return part;
}

PartRow RowWith(std::initializer_list<std::vector<uint64_t>> parts) {
  PartRow::Parts made;
  for (const std::vector<uint64_t>& keys : parts) made.push_back(PartWith(keys));
  return PartRow(std::move(made));
}

// A walk over parts that are not paged and lead to no frame.
PartRow::Walk Over(uint64_t first_key, uint64_t last_key) {
  static const FrameSlots slots;
  return {first_key, last_key, kLatestVersion, slots, nullptr, nullptr};
}

std::vector<uint64_t> KeysOf(const PartRow& row) {
  std::vector<uint64_t> keys(100);
  size_t count = 0;
  EXPECT_TRUE(row.FirstKeys(Over(0, kLastKey), keys, &count));
  keys.resize(count);
  return keys;
}

// Replaces `count` parts from `index` on by parts with these keys.
void Replace(PartRow* row, size_t index, size_t count,
             std::initializer_list<std::vector<uint64_t>> parts, bool keeps_old_run = false) {
  PartReplacement by;
  by.keeps_old_run = keeps_old_run;
  for (const std::vector<uint64_t>& keys : parts) {
    by.parts.push_back(PartWith(keys));
    by.first_keys.push_back(keys.front());
  }
  PartRow room = row->MakeRoom(index, count, by);
  row->Replace(index, count, &by, &room);
}

TEST(PartRowTest, EveryKeyBelongsToThePartThatBeginsAtOrBelowIt) {
  const PartRow row = RowWith({{10, 15}, {20, 25}, {30}});
  EXPECT_EQ(row.PartOf(0), 0u) << "the first bound counts as zero";
  EXPECT_EQ(row.PartOf(19), 0u);
  EXPECT_EQ(row.PartOf(20), 1u);
  EXPECT_EQ(row.PartOf(29), 1u);
  EXPECT_EQ(row.PartOf(30), 2u);
  EXPECT_EQ(row.PartOf(kLastKey), 2u);
}

TEST(PartRowTest, LookupsFindARecordInItsPartAlone) {
  const PartRow row = RowWith({{10, 15}, {20, 25}});
  for (const uint64_t key : {10, 15, 20, 25}) {
    const RefWord* const word = row.Locate(key, {});
    ASSERT_NE(word, nullptr) << key;
    EXPECT_EQ(word->Load().slot(), key);
  }
  EXPECT_EQ(row.Locate(17, {}), nullptr);
  EXPECT_EQ(PartRow().Locate(10, {}), nullptr);
  EXPECT_EQ(PartRow::OfNothing().Locate(10, {}), nullptr);
}

TEST(PartRowTest, WalksGoOnFromPartToPart) {
  const PartRow row = RowWith({{10, 15}, {20, 25}, {30, 35}});
  std::vector<uint64_t> keys(3);
  size_t count = 0;
  ASSERT_TRUE(row.FirstKeys(Over(12, kLastKey), keys, &count));
  ASSERT_EQ(count, 3u);
  EXPECT_EQ(keys, (std::vector<uint64_t>{15, 20, 25}));
  ASSERT_TRUE(row.LastKeys(Over(0, 31), keys, &count));
  ASSERT_EQ(count, 3u);
  EXPECT_EQ(keys, (std::vector<uint64_t>{20, 25, 30}));
  ASSERT_TRUE(row.LastKeys(Over(24, 29), keys, &count));
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(keys[2], 25u);
  std::vector<IndexEntry> entries;
  bool complete = true;
  EXPECT_TRUE(row.Collect(Over(0, kLastKey), 4, &entries, &complete));
  EXPECT_FALSE(complete);
  EXPECT_EQ(entries.size(), 4u);
  EXPECT_TRUE(row.Collect(Over(30, 35), 6, &entries, &complete));
  EXPECT_TRUE(complete);
  EXPECT_EQ(entries.size(), 6u);
  EXPECT_EQ(row.EstimateCount(15, 30), 4u);
  EXPECT_EQ(row.EstimateCount(30, 15), 0u);
}

TEST(PartRowTest, ReplacedPartsLeaveTheirNeighboursAlone) {
  PartRow row = RowWith({{10, 15}, {20, 25}, {30, 35}, {40}});
  Replace(&row, 1, 2, {{21, 22}, {33, 34}});
  EXPECT_EQ(KeysOf(row), (std::vector<uint64_t>{10, 15, 21, 22, 33, 34, 40}));
  ASSERT_EQ(row.size(), 4u);
  EXPECT_EQ(row.first_key(1), 20u) << "the first of them takes over the bound";
  EXPECT_EQ(row.first_key(2), 33u);
  Replace(&row, 0, 2, {});
  EXPECT_EQ(KeysOf(row), (std::vector<uint64_t>{33, 34, 40}));
  EXPECT_EQ(row.PartOf(1), 0u);
}

TEST(PartRowTest, AKeptRunStaysBeforeThePartsThatComeBehindIt) {
  PartRow row = RowWith({{10, 15}, {20, 25}, {40}});
  Replace(&row, 1, 1, {{26, 27}, {30}}, /*keeps_old_run=*/true);
  EXPECT_EQ(KeysOf(row), (std::vector<uint64_t>{10, 15, 20, 25, 26, 27, 30, 40}));
  EXPECT_EQ(row.size(), 5u);
  EXPECT_EQ(row.first_key(1), 20u);
  EXPECT_EQ(row.first_key(2), 26u);
}

// Keys below the first part's bound belong to it, so a split may begin below that bound.
TEST(PartRowTest, TheFirstPartMayBeSplitBelowItsBound) {
  PartRow row = RowWith({{100, 150}, {200}});
  Replace(&row, 0, 1, {{10, 20}, {60, 150}});
  EXPECT_EQ(row.first_key(0), 100u);
  EXPECT_EQ(row.PartOf(20), 0u);
  EXPECT_EQ(row.PartOf(60), 1u);
  EXPECT_EQ(KeysOf(row), (std::vector<uint64_t>{10, 20, 60, 150, 200}));
}

TEST(PartRowTest, BytesAreThoseOfThePartsAndOfTheRow) {
  PartRow row = RowWith({{10, 15}, {20}});
  uint64_t parts_bytes = 0;
  for (size_t i = 0; i < row.size(); ++i) parts_bytes += row.part(i).memory_bytes();
  EXPECT_EQ(row.memory_bytes(), row.own_bytes() + parts_bytes);
  EXPECT_EQ(row.history_bytes(), 0u);
  EXPECT_EQ(PartRow().memory_bytes(), 0u);
}

}  // namespace
}  // namespace engine_race

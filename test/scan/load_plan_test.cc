#include "engine_race/scan/load_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace engine_race {
namespace {

std::vector<IndexEntry> EntriesOf(const std::vector<uint32_t>& slots) {
  std::vector<IndexEntry> entries;
  for (uint32_t slot : slots) entries.push_back({entries.size(), ValueRef(slot, 0, false)});
  return entries;
}

constexpr uint32_t kBufferValues = 64;  // of 4 KiB

// With room for so many values and for gaps of `spare` slots of 4 KiB.
LoadPlan PlanOf(const std::vector<uint32_t>& slots, uint64_t logged, uint32_t spare) {
  LoadPlan plan;
  LoadPlanner planner{BufferLayout()};
  const size_t staged_count =
      planner.Add(3, EntriesOf(slots), logged, slots.size() + spare, /*later_count=*/0, &plan);
  EXPECT_EQ(staged_count, std::count_if(slots.begin(), slots.end(),
                                        [logged](uint32_t slot) { return slot >= logged; }));
  return plan;
}

// Every entry's position is filled by exactly one read, from its slot; staged ones by none.
void CheckPlan(const std::vector<uint32_t>& slots, uint64_t logged, const LoadPlan& plan) {
  ASSERT_EQ(slots.size(), plan.positions.size());
  std::vector<int64_t> slot_at(plan.position_count, -1);
  for (const PlannedRead& read : plan.reads) {
    EXPECT_EQ(3u, read.bucket);
    EXPECT_GT(read.slot_count, 0u);
    EXPECT_EQ(read.first_position / kBufferValues,
              (read.first_position + read.slot_count - 1) / kBufferValues)
        << "a read crosses buffers";
    for (uint32_t i = 0; i < read.slot_count; ++i) {
      ASSERT_LT(read.first_position + i, plan.position_count);
      EXPECT_EQ(-1, slot_at[read.first_position + i]);
      slot_at[read.first_position + i] = static_cast<int64_t>(read.first_slot + i);
      EXPECT_LT(read.first_slot + i, logged);
    }
  }
  std::set<uint32_t> taken;
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint32_t position = plan.positions[i] & ~kStagedPosition;
    ASSERT_LT(position, plan.position_count);
    EXPECT_TRUE(taken.insert(position).second);
    const bool staged = slots[i] >= logged;
    EXPECT_EQ(staged, (plan.positions[i] & kStagedPosition) != 0);
    EXPECT_EQ(staged ? -1 : static_cast<int64_t>(slots[i]), slot_at[position]);
  }
}

TEST(LoadPlanTest, AWholeBucketIsReadInOrderBufferByBuffer) {
  std::vector<uint32_t> slots(200);
  for (uint32_t i = 0; i < 200; ++i) slots[i] = (i * 77) % 200;
  const LoadPlan plan = PlanOf(slots, 1000, 0);
  CheckPlan(slots, 1000, plan);
  ASSERT_EQ(4u, plan.reads.size());
  EXPECT_EQ(200u, plan.position_count);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(i * kBufferValues, plan.reads[i].first_slot);
}

TEST(LoadPlanTest, SmallGapsAreReadAlongAndLargeOnesAreNot) {
  const std::vector<uint32_t> slots = {10, 12, 15, 100, 101, 5000};
  const LoadPlan plan = PlanOf(slots, 10000, 100);
  CheckPlan(slots, 10000, plan);
  ASSERT_EQ(3u, plan.reads.size());
  EXPECT_EQ(10u, plan.reads[0].first_slot);
  EXPECT_EQ(6u, plan.reads[0].slot_count);
  EXPECT_EQ(2u, plan.reads[1].slot_count);
  EXPECT_EQ(1u, plan.reads[2].slot_count);
}

TEST(LoadPlanTest, GapsTakeNoMoreThanTheSparePlaces) {
  const std::vector<uint32_t> slots = {10, 13, 16, 19, 22};
  for (uint32_t spare = 0; spare <= 8; ++spare) {
    const LoadPlan plan = PlanOf(slots, 10000, spare);
    CheckPlan(slots, 10000, plan);
    EXPECT_LE(plan.position_count, slots.size() + spare);
    EXPECT_EQ(5 - spare / 2, plan.reads.size());
  }
}

TEST(LoadPlanTest, UnloggedSlotsAreStaged) {
  const std::vector<uint32_t> slots = {9, 3, 8, 4, 5};
  const LoadPlan plan = PlanOf(slots, 8, 10);
  CheckPlan(slots, 8, plan);
  EXPECT_EQ(1u, plan.reads.size());
  EXPECT_EQ(5u, plan.position_count);
  CheckPlan(slots, 0, PlanOf(slots, 0, 10));
}

// Rows are given to other runs beside a plan without a view.
TEST(LoadPlanTest, SlotsThatChangeMeanwhileHaveOnePlaceEach) {
  constexpr uint32_t kRow = 64;
  constexpr uint64_t kWatermark = 10 * kRow;
  const SlotBits all = SlotBits::First(kRow);
  const auto run_from = [&](uint64_t number) {
    return Row{.kind = format::RowKind::kUsed, .number = number, .path = all, .held = all};
  };
  RunSlots runs(kRow);
  runs.Set(0, run_from(0));
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (uint64_t i = 0; !stop; ++i) runs.Set(0, run_from(i % 2 * 2 * kWatermark));
  });
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < kRow; ++slot) slots.push_back(slot);
  const std::vector<IndexEntry> entries = EntriesOf(slots);
  LoadPlanner planner{BufferLayout()};
  for (int i = 0; i < 20000; ++i) {
    LoadPlan plan;
    planner.Add(3, entries, LoggedSlots(kWatermark, &runs), /*max_positions=*/0,
                /*later_count=*/0, &plan);
    EXPECT_EQ(plan.position_count, kRow);
    std::set<uint32_t> taken;
    for (const uint32_t position : plan.positions) taken.insert(position & ~kStagedPosition);
    EXPECT_EQ(taken.size(), kRow);
    if (HasFailure()) break;
  }
  stop = true;
  changer.join();
}

TEST(LoadPlanTest, NothingGivesNothing) {
  const LoadPlan plan = PlanOf({}, 8, 10);
  EXPECT_TRUE(plan.reads.empty());
  EXPECT_EQ(0u, plan.position_count);
}

// The next segment may lie in another file.
TEST(LoadPlanTest, ReadsEndWithTheSegment) {
  std::vector<uint32_t> slots;
  for (uint32_t slot = 5; slot < 1500; ++slot) {
    if (slot % 13 != 0) slots.push_back(slot);
  }
  LoadPlan plan;
  LoadPlanner planner{BufferLayout()};
  planner.Add(3, EntriesOf(slots), 2000, slots.size() + 1000, 0, &plan);
  CheckPlan(slots, 2000, plan);
  for (const PlannedRead& read : plan.reads) {
    EXPECT_EQ(read.first_slot / format::kMaxRowRecords,
              (read.first_slot + read.slot_count - 1) / format::kMaxRowRecords);
  }
}

TEST(LoadPlanTest, BucketsFollowEachOther) {
  LoadPlan plan;
  LoadPlanner planner{BufferLayout()};
  planner.Add(0, EntriesOf({0, 1, 2}), 100, 6, 3, &plan);
  planner.Add(1, EntriesOf({7, 5, 6}), 100, 6, 0, &plan);
  ASSERT_EQ(2u, plan.reads.size());
  EXPECT_EQ(1u, plan.reads[1].bucket);
  EXPECT_EQ(5u, plan.reads[1].first_slot);
  EXPECT_EQ(3u, plan.reads[1].first_position);
  EXPECT_EQ((std::vector<uint32_t>{0, 1, 2, 5, 3, 4}), plan.positions);
}

TEST(LoadPlanTest, RandomSlotsDenseAndSparse) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const uint32_t count = 1 + random() % 500;
    const uint32_t range = count * (1 + random() % 40);
    std::vector<uint32_t> all(range);
    for (uint32_t i = 0; i < range; ++i) all[i] = i;
    std::shuffle(all.begin(), all.end(), random);
    const std::vector<uint32_t> slots(all.begin(), all.begin() + count);
    const uint32_t logged = random() % (range + 1);
    const uint32_t spare = random() % (2 * count);
    const LoadPlan plan = PlanOf(slots, logged, spare);
    CheckPlan(slots, logged, plan);
    EXPECT_LE(plan.position_count, count + spare);
  }
}

// By their bytes in the bucket's segments: each value lies where a read brings it, or alone.
class SizedPlanTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void Check(const std::vector<uint32_t>& slots, uint64_t logged, const LoadPlan& plan) const {
    const uint64_t unit = layout_.position_bytes();
    const uint64_t buffer_bytes = layout_.buffer_bytes();
    ASSERT_EQ(slots.size(), plan.positions.size());
    // By the first byte in memory: the first byte in the bucket, and how many.
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> reads;
    for (const PlannedRead& read : plan.reads) {
      const Blocks blocks = BlocksAround(layout_.SlotOffset(read.first_slot),
                                         uint64_t{read.slot_count} * layout_.slot_bytes());
      EXPECT_EQ(blocks.offset % kIoAlignment, 0u);
      const uint64_t begin = read.first_position * unit;
      EXPECT_EQ(begin % kIoAlignment, 0u);
      EXPECT_EQ(begin / buffer_bytes, (begin + blocks.size_bytes - 1) / buffer_bytes);
      EXPECT_EQ(read.first_slot / format::kMaxRowRecords,
                (read.first_slot + read.slot_count - 1) / format::kMaxRowRecords);
      EXPECT_TRUE(reads.emplace(begin, std::pair(blocks.offset, blocks.size_bytes)).second);
    }
    std::map<uint64_t, uint64_t> taken;  // memory, by where it begins
    for (const auto& [begin, blocks] : reads) taken.emplace(begin, blocks.second);
    for (size_t i = 0; i < slots.size(); ++i) {
      const uint64_t at = uint64_t{plan.positions[i] & ~kStagedPosition} * unit;
      ASSERT_LE(at + layout_.slot_bytes(), plan.position_count * unit);
      if (slots[i] >= logged) {
        EXPECT_NE(plan.positions[i] & kStagedPosition, 0u);
        EXPECT_EQ(at / buffer_bytes, (at + layout_.slot_bytes() - 1) / buffer_bytes);
        EXPECT_TRUE(taken.emplace(at, layout_.slot_bytes()).second);
        continue;
      }
      auto read = reads.upper_bound(at);
      ASSERT_NE(read, reads.begin());
      --read;
      EXPECT_EQ(at - read->first + read->second.first, layout_.SlotOffset(slots[i]));
      EXPECT_LE(at - read->first + layout_.slot_bytes(), read->second.second);
    }
    uint64_t end = 0;
    for (const auto& [begin, bytes] : taken) {
      EXPECT_GE(begin, end) << "memory of two";
      end = begin + bytes;
    }
    EXPECT_LE(end, plan.position_count * unit);
  }
  LoadPlan PlanOf(const std::vector<uint32_t>& slots, uint64_t logged,
                  uint64_t max_positions) const {
    LoadPlan plan;
    LoadPlanner planner(layout_);
    planner.Add(3, EntriesOf(slots), logged, max_positions, /*later_count=*/0, &plan);
    return plan;
  }
  // The blocks that have a wanted slot.
  size_t CountBlocks(const std::vector<uint32_t>& slots) const {
    std::set<uint64_t> blocks;
    for (const uint32_t slot : slots) {
      const Blocks around = layout_.BlocksOf(slot);
      for (uint64_t at = 0; at < around.size_bytes; at += kIoAlignment) {
        blocks.insert(around.offset + at);
      }
    }
    return blocks.size();
  }

  const BufferLayout layout_{ValueLayout(GetParam())};
};

TEST_P(SizedPlanTest, RandomSlotsDenseAndSparse) {
  std::mt19937_64 random(GetParam());
  for (int round = 0; round < 100; ++round) {
    const uint32_t count = 1 + random() % 600;
    const uint32_t range = count * (1 + random() % 40);
    std::vector<uint32_t> slots(range);
    for (uint32_t i = 0; i < range; ++i) slots[i] = i;
    std::shuffle(slots.begin(), slots.end(), random);
    slots.resize(count);
    const uint64_t logged = random() % (range + 1);
    // What the values take in any case, and some for gaps.
    const uint64_t spare = random() % (2 * count);
    const uint64_t max_positions = (count + spare) * uint64_t{layout_.read_positions()};
    const LoadPlan plan = PlanOf(slots, logged, max_positions);
    Check(slots, logged, plan);
    EXPECT_LE(plan.position_count, max_positions);
    if (HasFailure()) break;
  }
}

TEST_P(SizedPlanTest, ABlockIsReadOnceForAllItsValues) {
  std::mt19937_64 random(GetParam());
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < 4 * format::kMaxRowRecords; ++slot) {
    if (random() % 3 == 0) slots.push_back(slot);
  }
  const LoadPlan plan = PlanOf(slots, 4 * format::kMaxRowRecords, /*max_positions=*/0);
  Check(slots, 4 * format::kMaxRowRecords, plan);
  size_t read_blocks = 0;
  for (const PlannedRead& read : plan.reads) {
    read_blocks += read.BlocksOf(layout_.slot_bytes()).size_bytes / kIoAlignment;
  }
  // But one where a buffer ends.
  EXPECT_GE(read_blocks, CountBlocks(slots));
  EXPECT_LE(read_blocks, CountBlocks(slots) + layout_.BuffersFor(plan.position_count));
}

TEST_P(SizedPlanTest, GapsAreReadAlongUpTo32KiB) {
  // Of whole blocks, between the slot at 0 and the next one.
  for (uint32_t next = 2; next < format::kMaxRowRecords; ++next) {
    const Blocks first = layout_.BlocksOf(0);
    const Blocks second = layout_.BlocksOf(next);
    const uint64_t first_end = first.offset + first.size_bytes;
    const uint64_t gap_bytes = second.offset < first_end ? 0 : second.offset - first_end;
    const LoadPlan plan = PlanOf({0, next}, 1000, /*max_positions=*/uint64_t{1} << 29);
    const uint64_t read_bytes = second.offset + second.size_bytes;
    const bool is_one = gap_bytes <= 32 * 1024 && read_bytes <= layout_.buffer_bytes();
    EXPECT_EQ(plan.reads.size(), is_one ? 1u : 2u) << next;
    const LoadPlan tight = PlanOf({0, next}, 1000, /*max_positions=*/0);
    EXPECT_EQ(tight.reads.size(), gap_bytes == 0 && is_one ? 1u : 2u) << next;
  }
}

TEST_P(SizedPlanTest, SeveralBucketsKeepRoomForOneAnother) {
  std::mt19937_64 random(GetParam());
  for (int round = 0; round < 20; ++round) {
    constexpr uint32_t kEach = 50;
    constexpr uint32_t kBuckets = 4;
    const uint64_t max_positions =
        kBuckets * kEach * uint64_t{layout_.read_positions()} + random() % 5000;
    LoadPlan plan;
    LoadPlanner planner(layout_);
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      std::vector<uint32_t> slots;
      for (uint32_t i = 0; i < kEach; ++i) slots.push_back(i * (1 + random() % 3) + i * 3);
      std::sort(slots.begin(), slots.end());
      slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
      // Some are staged, so that reads of the next bucket begin behind part of a block.
      planner.Add(bucket, EntriesOf(slots), /*logged=*/100, max_positions,
                  (kBuckets - bucket - 1) * kEach, &plan);
    }
    EXPECT_LE(plan.position_count, max_positions);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SizedPlanTest,
                         ::testing::Values(8, 100, 512, 1536, 4096, 5000, 16384, 100'000,
                                           1'048'576));

}  // namespace
}  // namespace engine_race

#include "engine_race/index/giant_partitions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

constexpr uint32_t kWorkers = 3;

// Routes `entries` in rounds until nothing is put off. Returns the sequence number of each key.
std::map<uint64_t, uint64_t> RouteAll(const std::vector<RoutedEntry>& entries,
                                      std::vector<KeyRange> ranges, size_t at_once,
                                      int* round_count) {
  const SlotTable table;
  GiantPartitions partitions(at_once, kWorkers, &table);
  // The smallest buffers that are possible.
  EXPECT_TRUE(partitions.Allocate(1, Placement()).ok());
  std::map<uint64_t, uint64_t> newest;
  *round_count = 0;
  while (!ranges.empty() && *round_count < 1000) {
    ++*round_count;
    const size_t taken = std::min(at_once, ranges.size());
    partitions.Begin({ranges.data(), taken});
    std::vector<std::thread> threads;
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      threads.emplace_back([&, worker] {
        for (size_t i = worker; i < entries.size(); i += kWorkers) {
          partitions.Add(worker, entries[i]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    partitions.Flush();
    ranges.erase(ranges.begin(), ranges.begin() + static_cast<ptrdiff_t>(taken));
    for (size_t i = 0; i < partitions.count(); ++i) {
      uint64_t previous = 0;
      for (const RoutedEntry& entry : partitions.Sorted(i)) {
        EXPECT_GE(entry.key, partitions.range(i).first);
        EXPECT_LE(entry.key, partitions.range(i).last);
        EXPECT_GE(entry.key, previous);
        previous = entry.key;
        EXPECT_TRUE(newest.emplace(entry.key, entry.sequence).second) << "twice " << entry.key;
      }
    }
    ranges.insert(ranges.end(), partitions.put_off().begin(), partitions.put_off().end());
    std::sort(ranges.begin(), ranges.end(),
              [](const KeyRange& a, const KeyRange& b) { return a.first < b.first; });
  }
  return newest;
}

void ExpectRouted(const std::vector<RoutedEntry>& entries, const std::vector<KeyRange>& ranges,
                  size_t at_once, int* round_count) {
  std::map<uint64_t, uint64_t> wanted;
  for (const RoutedEntry& entry : entries) {
    uint64_t& sequence = wanted[entry.key];
    sequence = std::max(sequence, entry.sequence);
  }
  EXPECT_EQ(RouteAll(entries, ranges, at_once, round_count), wanted);
}

std::vector<RoutedEntry> Entries(size_t count, uint64_t key_space) {
  std::mt19937_64 random(7);
  std::vector<RoutedEntry> entries;
  for (size_t i = 0; i < count; ++i) entries.push_back({random() % key_space, i, ValueRef()});
  return entries;
}

TEST(GiantPartitionsTest, OneRoundWhenEverythingFits) {
  int rounds = 0;
  ExpectRouted(Entries(400, 1000), {{0, 499}, {500, ~uint64_t{0}}}, 2, &rounds);
  EXPECT_EQ(rounds, 1);
}

TEST(GiantPartitionsTest, OverwrittenKeysFitInOneRound) {
  int rounds = 0;
  ExpectRouted(Entries(50000, 100), {{0, ~uint64_t{0}}}, 1, &rounds);
  EXPECT_EQ(rounds, 1);
}

// A misleading sample: all entries belong to one partition.
TEST(GiantPartitionsTest, TooManyDistinctKeysArePutOff) {
  int rounds = 0;
  ExpectRouted(Entries(5000, 100000), {{0, 200000}, {200001, ~uint64_t{0}}}, 2, &rounds);
  EXPECT_GT(rounds, 3);
}

// Slots come in any order.
TEST(GiantPartitionsTest, TheLatestCopyOfARecordIsKept) {
  SlotTable table(GeometryFrom(test::TinyLogOptions()));
  const uint32_t row_records = table.row_records();
  using format::RowKind;
  const SlotBits nine = SlotBits::First(9);
  table.SetRow(0, {.kind = RowKind::kUsed, .held = nine, .birth = 1, .moved_at = 1});
  table.SetRow(1, {.kind = RowKind::kUsed, .path = nine, .held = nine});
  table.SetRow(2, {.kind = RowKind::kMoving, .held = nine, .birth = 2, .moved_at = 2});
  for (const bool others_between : {false, true}) {
    std::vector<uint32_t> slots = {0, row_records + 5, 2 * row_records};
    do {
      GiantPartitions partitions(1, 1, &table);
      ASSERT_TRUE(partitions.Allocate(1, Placement()).ok());
      const KeyRange all = {0, ~uint64_t{0}};
      partitions.Begin({&all, 1});
      for (const uint32_t slot : slots) {
        partitions.Add(0, {7, 5, ValueRef(slot, 1, false)});
        if (others_between) partitions.Add(0, {8, 6, ValueRef(row_records + 6, 1, false)});
      }
      partitions.Flush();
      EXPECT_EQ(partitions.Sorted(0)[0].ref.slot(), 2 * row_records);
    } while (std::next_permutation(slots.begin(), slots.end()));
  }
}

TEST(GiantPartitionsTest, ManyRoundsOverManyRanges) {
  std::vector<KeyRange> ranges;
  for (uint64_t i = 0; i < 40; ++i) {
    ranges.push_back({i * 1000, i == 39 ? ~uint64_t{0} : i * 1000 + 999});
  }
  int rounds = 0;
  ExpectRouted(Entries(8000, 40000), ranges, 7, &rounds);
  EXPECT_GE(rounds, 6);
}

}  // namespace
}  // namespace engine_race

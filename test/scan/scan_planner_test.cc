#include "engine_race/scan/scan_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "engine_race/scan/chunk.h"

namespace engine_race {
namespace {

constexpr uint64_t kChunkKeys = 100;

// A row of chunks of one buffer, chunk i of which covers the keys [100 i, 100 i + 99].
class ScanPlannerTest : public ::testing::Test {
 protected:
  void AddChunks(uint64_t begin, uint64_t end, uint32_t buffer_count = 1) {
    for (uint64_t i = begin; i < end; ++i) {
      AddChunk(i * kChunkKeys, i * kChunkKeys + kChunkKeys - 1, buffer_count);
    }
  }
  void AddChunk(uint64_t first_key, uint64_t last_key, uint32_t buffer_count) {
    chunks_.push_back(std::make_unique<Chunk>());
    chunks_.back()->first_key = first_key;
    chunks_.back()->last_key = last_key;
    chunks_.back()->buffers.resize(buffer_count);
    map_.Insert(chunks_.back().get());
  }

  // At the start of chunk `pos`, with all loaded up to chunk `frontier`.
  ScanView& AddScan(uint64_t pos, uint64_t frontier, uint64_t last = 100000) {
    scans_.push_back({pos * kChunkKeys, last, 1, frontier * kChunkKeys, false, 0, false, 0});
    return scans_.back();
  }

  ScanSituation Situation(uint32_t limit_buffers = 64) {
    return {scans_, map_, limit_buffers, &reaches_};
  }

  // The numbers of the chunks that go; none when there is no room.
  std::vector<uint64_t> Victims(const NextLoad& load, uint64_t missing_buffers = 1,
                                size_t least_count = 0, uint32_t limit_buffers = 64) {
    std::vector<Victim> victims;
    const bool room =
        ChooseVictims(Situation(limit_buffers), load, missing_buffers, least_count, &victims);
    EXPECT_TRUE(room || victims.empty());
    std::vector<uint64_t> numbers;
    for (const Victim& victim : victims) numbers.push_back(victim.chunk->first_key / kChunkKeys);
    return numbers;
  }

  static NextLoad Waited() {
    NextLoad load;
    load.waited_for = true;
    return load;
  }
  static NextLoad Insisted() {
    NextLoad load = Waited();
    load.insists = true;
    return load;
  }
  static NextLoad Ahead(uint32_t ahead_buffers) {
    NextLoad load;
    load.ahead_buffers = ahead_buffers;
    return load;
  }

  std::vector<ScanView> scans_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  ChunkMap map_;
  std::vector<ScanReach> reaches_;
};

using Numbers = std::vector<uint64_t>;

TEST_F(ScanPlannerTest, NothingIsLoadedForNobody) {
  NextLoad load;
  EXPECT_FALSE(ChooseLoad(Situation(), &load));
  AddScan(0, 3).covered = true;
  EXPECT_FALSE(ChooseLoad(Situation(), &load));
}

TEST_F(ScanPlannerTest, WhoHasWaitedLongestComesFirst) {
  AddChunks(0, 2);
  AddScan(0, 2);
  AddScan(5, 5).wait_number = 9;
  AddScan(7, 7).wait_number = 4;
  AddScan(9, 9).wait_number = 6;
  NextLoad load;
  ASSERT_TRUE(ChooseLoad(Situation(), &load));
  EXPECT_TRUE(load.waited_for);
  EXPECT_EQ(700u, load.key);
}

TEST_F(ScanPlannerTest, OneLoadServesAllThatLackTheSame) {
  AddChunks(0, 2);
  AddScan(0, 2, 900).begin = 7;
  AddScan(2, 2, 300).wait_number = 1;
  AddScan(5, 5, 5000).begin = 9;
  NextLoad load;
  ASSERT_TRUE(ChooseLoad(Situation(), &load));
  EXPECT_EQ(200u, load.key);
  EXPECT_EQ(900u, load.last);
  EXPECT_EQ(7u, load.begin);
}

TEST_F(ScanPlannerTest, ReadsAheadWhereLeastIsLoaded) {
  AddChunks(0, 4);
  AddChunks(10, 12);
  AddChunks(20, 23);
  AddScan(0, 4);
  AddScan(10, 12);
  AddScan(20, 23);
  NextLoad load;
  ASSERT_TRUE(ChooseLoad(Situation(), &load));
  EXPECT_FALSE(load.waited_for);
  EXPECT_EQ(1200u, load.key);
  EXPECT_EQ(2u, load.ahead_buffers);
}

TEST_F(ScanPlannerTest, WhatIsAheadIsCountedFromTheForemostScan) {
  AddChunks(0, 8);
  AddChunks(20, 22);
  AddScan(0, 8);
  AddScan(7, 8);
  AddScan(20, 22);
  NextLoad load;
  ASSERT_TRUE(ChooseLoad(Situation(), &load));
  EXPECT_EQ(800u, load.key);
  EXPECT_EQ(1u, load.ahead_buffers);
}

TEST_F(ScanPlannerTest, ReadsAheadNoMoreThanHalfAShare) {
  AddChunks(0, 9);
  AddScan(0, 9);
  NextLoad load;
  EXPECT_TRUE(ChooseLoad(Situation(18), &load));
  EXPECT_FALSE(ChooseLoad(Situation(17), &load));
  // The next scan is a convoy of its own, and has nothing yet.
  AddScan(50, 50);
  ASSERT_TRUE(ChooseLoad(Situation(18), &load));
  EXPECT_EQ(5000u, load.key);
}

TEST_F(ScanPlannerTest, ChunksTakeAQuarterOfAShareAndAtLeastABuffer) {
  NextLoad load;
  for (uint64_t convoys = 1; convoys <= 40; ++convoys) {
    AddScan(10 * convoys, 10 * convoys);
    EXPECT_EQ(convoys, CountConvoys(Situation()));
    ASSERT_TRUE(ChooseLoad(Situation(64), &load));
    EXPECT_EQ(std::max<uint64_t>(1, 64 / convoys / 4), load.max_buffers) << convoys;
  }
}

TEST_F(ScanPlannerTest, AScanThatWaitsTakesMoreUpToHalfTheMemory) {
  for (uint64_t i = 0; i < 8; ++i) AddScan(10 * i, 10 * i);
  scans_[3].wait_number = 1;
  NextLoad load;
  for (const auto& [doublings, buffers] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {1, 4}, {3, 16}, {4, 32}, {24, 32}}) {
    scans_[3].doublings = doublings;
    ASSERT_TRUE(ChooseLoad(Situation(64), &load));
    EXPECT_EQ(buffers, load.max_buffers) << doublings;
  }
  // It is not the one that is read for.
  scans_[3].wait_number = 0;
  ASSERT_TRUE(ChooseLoad(Situation(64), &load));
  EXPECT_NE(3000u, load.key);
  EXPECT_EQ(2u, load.max_buffers);
}

TEST_F(ScanPlannerTest, ScansBetweenWhichAllIsLoadedAreOneConvoy) {
  AddScan(0, 5);
  AddScan(3, 5);
  AddScan(5, 5);
  EXPECT_EQ(1u, CountConvoys(Situation()));
  AddScan(6, 6);
  AddScan(6, 8);
  EXPECT_EQ(2u, CountConvoys(Situation()));
  scans_[4].covered = true;
  scans_[4].last = UINT64_MAX;
  AddScan(900, 900);
  EXPECT_EQ(2u, CountConvoys(Situation()));
}

TEST_F(ScanPlannerTest, WhatNobodyWantsGoesFirstTheHighestKeysBeforeOthers) {
  AddChunks(0, 8);
  AddScan(6, 8);
  EXPECT_EQ((Numbers{5}), Victims(Waited()));
  EXPECT_EQ((Numbers{5, 4, 3}), Victims(Waited(), 3));
  EXPECT_EQ((Numbers{5, 4, 3, 2, 1, 0, 7, 6}), Victims(Insisted(), 8));
  EXPECT_EQ((Numbers{}), Victims(Insisted(), 9));
}

TEST_F(ScanPlannerTest, WhatIsBehindTheLastWantedKeyIsNotWanted) {
  AddChunks(0, 4);
  AddScan(0, 2, 199);
  EXPECT_EQ((Numbers{3, 2}), Victims(Waited(), 2));
}

TEST_F(ScanPlannerTest, WhatIsNotReachedYetGoesBeforeWhatComesNext) {
  AddChunks(0, 3);
  AddChunks(60, 62);
  AddScan(0, 3);
  EXPECT_EQ((Numbers{61, 60, 2, 1, 0}), Victims(Insisted(), 5));
}

TEST_F(ScanPlannerTest, WhatComesLastGoesFirst) {
  AddChunks(0, 3);
  AddChunks(10, 18);
  AddScan(0, 3);
  AddScan(10, 18);
  EXPECT_EQ((Numbers{17, 16, 15, 14}), Victims(Waited(), 4, 0, 8));
  EXPECT_EQ((Numbers{17, 16, 15, 14, 13}), Victims(Insisted(), 5, 0, 8));
}

TEST_F(ScanPlannerTest, WhoFallsBehindKeepsItsShareUntilOthersInsist) {
  AddChunks(0, 8);
  AddScan(0, 8);
  AddScan(8, 8).wait_number = 1;
  EXPECT_EQ((Numbers{}), Victims(Waited(), 1, 0, 8));
  EXPECT_EQ((Numbers{7}), Victims(Insisted(), 1, 0, 8));
  // What is beyond its share it loses at once.
  EXPECT_EQ((Numbers{7, 6}), Victims(Waited(), 2, 0, 6));
  EXPECT_EQ((Numbers{}), Victims(Waited(), 3, 0, 6));
  NextLoad load;
  ASSERT_TRUE(ChooseLoad(Situation(), &load));
  EXPECT_FALSE(load.insists);
  scans_[1].insists = true;
  ASSERT_TRUE(ChooseLoad(Situation(), &load));
  EXPECT_TRUE(load.insists);
}

TEST_F(ScanPlannerTest, HeldChunksStay) {
  AddChunks(0, 4);
  for (const uint64_t held : {0, 2, 3}) chunks_[held]->pins = 1;
  EXPECT_EQ((Numbers{1}), Victims(Waited()));
  EXPECT_EQ((Numbers{}), Victims(Waited(), 2));
}

TEST_F(ScanPlannerTest, ReadingAheadTakesNothingThatIsWantedBefore) {
  AddChunks(0, 4);
  AddScan(0, 4);
  EXPECT_EQ((Numbers{3, 2}), Victims(Ahead(1), 2, 0, 2));
  EXPECT_EQ((Numbers{3}), Victims(Ahead(2), 1, 0, 2));
  EXPECT_EQ((Numbers{}), Victims(Ahead(2), 2, 0, 2));
  EXPECT_EQ((Numbers{}), Victims(Ahead(1), 1, 0, 4));
}

TEST_F(ScanPlannerTest, ChunksWithoutBuffersGoForOthersToo) {
  AddChunks(0, 4, 0);
  EXPECT_EQ((Numbers{3, 2}), Victims(Waited(), 0, 2));
  EXPECT_EQ((Numbers{}), Victims(Waited(), 1, 0));
}

TEST_F(ScanPlannerTest, TheEndOfTheKeySpaceIsNoGap) {
  AddChunk(0, UINT64_MAX - 1, 1);
  AddChunk(UINT64_MAX, UINT64_MAX, 1);
  scans_.push_back({0, UINT64_MAX, 1, 0, true, 0, false, 0});
  std::vector<Victim> victims;
  ForEachVictim(Situation(), [&](const Victim& victim) {
    victims.push_back(victim);
    return true;
  });
  ASSERT_EQ(2u, victims.size());
  EXPECT_EQ(Victim::kNear, victims[0].kind);
  EXPECT_EQ(UINT64_MAX, victims[0].chunk->first_key);
}

// Ranks all chunks in one pass over them, as the header describes the order.
class VictimOrderTest : public ScanPlannerTest {
 protected:
  using Rank = std::tuple<Victim::Kind, uint64_t, uint64_t>;  // kind, distance, first key

  std::vector<Rank> AllRanks(uint32_t limit_buffers) {
    std::vector<Rank> ranks;
    const uint32_t share = limit_buffers / std::max(1u, CountConvoys(Situation()));
    const ScanView* scan = nullptr;
    uint64_t wanted_last = 0;
    uint64_t way_end = 0;
    bool to_last_key = false;
    uint64_t convoy_buffers = 0;
    uint64_t distance = 0;
    size_t next = 0;
    for (const auto& chunk : chunks_) {
      for (; next < scans_.size() && scans_[next].pos <= chunk->last_key; ++next) {
        const bool begins = scan == nullptr || (!to_last_key && scans_[next].pos > way_end);
        scan = &scans_[next];
        wanted_last = std::max(wanted_last, scan->last);
        if (begins) {
          way_end = scan->pos;
          convoy_buffers = 0;
        }
        if (scan->covered && scan->last == UINT64_MAX) {
          to_last_key = true;
        } else {
          way_end = std::max(way_end, scan->covered ? scan->last + 1 : scan->frontier);
        }
        distance = 0;
      }
      const bool on_the_way = scan != nullptr && (to_last_key || chunk->first_key < way_end);
      if (on_the_way) convoy_buffers += chunk->buffers.size();
      if (chunk->pins == 0) {
        if (scan == nullptr || chunk->first_key > wanted_last) {
          ranks.emplace_back(Victim::kUnwanted, chunk->first_key, chunk->first_key);
        } else if (!on_the_way) {
          ranks.emplace_back(Victim::kBehindGap, chunk->first_key, chunk->first_key);
        } else {
          ranks.emplace_back(convoy_buffers <= share ? Victim::kNear : Victim::kFar, distance,
                             chunk->first_key);
        }
      }
      distance += chunk->buffers.size();
    }
    return ranks;
  }

  std::vector<Rank> Visited(uint32_t limit_buffers) {
    std::vector<Rank> ranks;
    ForEachVictim(Situation(limit_buffers), [&](const Victim& victim) {
      ranks.emplace_back(victim.kind, victim.distance, victim.chunk->first_key);
      return true;
    });
    return ranks;
  }
};

TEST_F(VictimOrderTest, MatchesARankingOfAllChunks) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t end) { return random() % end; };
    map_ = ChunkMap();
    chunks_.clear();
    scans_.clear();
    const uint64_t most_chunks = 1 + below(seed % 10 == 0 ? 2000 : 40);
    for (uint64_t i = 0; i < most_chunks; ++i) {
      if (below(5) == 0) continue;
      AddChunks(i, i + 1, static_cast<uint32_t>(below(4)));
      chunks_.back()->pins = below(8) == 0 ? 1 : 0;
    }
    const uint64_t end_key = most_chunks * kChunkKeys;
    const uint64_t scan_count = below(6);
    for (uint64_t i = 0; i < scan_count; ++i) {
      ScanView scan;
      scan.pos = below(end_key);
      scan.last = below(4) == 0 ? std::numeric_limits<uint64_t>::max() : scan.pos + below(end_key);
      scan.frontier = scan.pos + below(end_key / 2 + 1);
      scan.covered = below(4) == 0;
      scans_.push_back(scan);
    }
    std::sort(scans_.begin(), scans_.end(),
              [](const ScanView& a, const ScanView& b) { return a.pos < b.pos; });
    const auto limit_buffers = static_cast<uint32_t>(1 + below(2 * most_chunks));
    std::vector<Rank> visited = Visited(limit_buffers);
    const auto goes_before = [](const Rank& a, const Rank& b) {
      return std::get<0>(a) != std::get<0>(b) ? std::get<0>(a) > std::get<0>(b)
                                              : std::get<1>(a) > std::get<1>(b);
    };
    ASSERT_TRUE(std::is_sorted(visited.begin(), visited.end(), goes_before)) << seed;
    // Chunks at the same distance are evicted in any order.
    std::vector<Rank> expected = AllRanks(limit_buffers);
    std::sort(visited.begin(), visited.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(visited, expected) << seed;
  }
}

// 100 chunks are on the way of scans; 900 lie behind gaps.
TEST_F(VictimOrderTest, AVisitorThatHasEnoughIsNotCalledAgain) {
  AddChunks(0, 1000);
  for (uint64_t pos = 0; pos < 1000; pos += 100) AddScan(pos, pos + 10);
  for (const size_t wanted : {1, 300, 950, 1000}) {
    size_t visited_count = 0;
    ForEachVictim(Situation(), [&](const Victim&) { return ++visited_count < wanted; });
    EXPECT_EQ(visited_count, wanted);
  }
}

}  // namespace
}  // namespace engine_race

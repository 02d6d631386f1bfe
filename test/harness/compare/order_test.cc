// Orders and answers of phases' processes, there and back.
#include "harness/compare/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace engine_race::harness {
namespace {

TEST(CompareOrderTest, ComesBackAsItWent) {
  CompareOrder order;
  order.store = "lmdb";
  order.phase = kRangePhase;
  order.round = 3;
  order.position = 4;
  order.opening = 9;
  order.dir = "/a \"b\"";
  order.cgroup = "/c";
  order.cgroup_version = 2;
  order.memory_cap_bytes = 456;
  order.thread_count = 7;
  order.record_count = uint64_t{1} << 60;
  order.written_count = 5;
  order.seed = ~uint64_t{0};
  order.phase_seconds = 0.5;
  order.process_seconds = 60.5;
  order.memory_budget_bytes = 123;
  order.dense_keys = true;
  order.has_all_records = false;
  const nlohmann::json json = order;
  EXPECT_EQ(nlohmann::json(nlohmann::json::parse(json.dump()).get<CompareOrder>()), json);
}

TEST(CompareAnswerTest, FiguresThatAreNotThereAreNothing) {
  CompareAnswer answer;
  EXPECT_EQ(answer.OperationsPerSecond(), 0);
  answer.run = {{"operations_per_s", 12.5}, {"write_amplification", nullptr}};
  EXPECT_EQ(answer.OperationsPerSecond(), 12.5);
  answer.error = "failed midway";
  EXPECT_EQ(answer.OperationsPerSecond(), 0);
  EXPECT_FALSE(answer.Figure("write_amplification"));
  EXPECT_FALSE(answer.Figure("space_amplification"));
}

TEST(StoresInTurnTest, EveryStoreIsOnceAtEveryPosition) {
  constexpr uint32_t kStores = 5;
  std::set<std::pair<uint32_t, uint32_t>> seen;  // store and position
  for (uint32_t round = 0; round < kStores; ++round) {
    const std::vector<uint32_t> stores = StoresInTurn(round, kStores);
    ASSERT_EQ(stores.size(), kStores);
    EXPECT_EQ(stores.front(), round);
    for (uint32_t position = 0; position < kStores; ++position) {
      EXPECT_LT(stores[position], kStores);
      seen.emplace(stores[position], position);
    }
    std::vector<uint32_t> opposite = StoresInTurn(round + kStores, kStores);
    std::reverse(opposite.begin(), opposite.end());
    EXPECT_EQ(opposite, stores);
    EXPECT_EQ(StoresInTurn(round + 2 * kStores, kStores), stores);
  }
  EXPECT_EQ(seen.size(), kStores * kStores);
  EXPECT_TRUE(StoresInTurn(3, 0).empty());
}

}  // namespace
}  // namespace engine_race::harness

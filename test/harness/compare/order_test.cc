// Orders and answers of phases' processes, there and back.
#include "harness/compare/order.h"

#include <gtest/gtest.h>

namespace harness {
namespace {

TEST(CompareOrderTest, ComesBackAsItWent) {
  CompareOrder order;
  order.store = "lmdb";
  order.phase = kRangePhase;
  order.round = 3;
  order.dir = "/a \"b\"";
  order.cgroup = "/c";
  order.thread_count = 7;
  order.record_count = uint64_t{1} << 60;
  order.written_count = 5;
  order.seed = ~uint64_t{0};
  order.phase_seconds = 0.5;
  order.process_seconds = 60.5;
  order.memory_budget_bytes = 123;
  order.dense_keys = true;
  const nlohmann::json json = order;
  const auto back = ParseCompareOrder(json.dump());
  ASSERT_TRUE(back);
  EXPECT_EQ(nlohmann::json(*back), json);
}

TEST(CompareOrderTest, OtherTextsAreNone) {
  for (const char* text : {"", "{", "[]", "7", "{}", R"({"store": 7})"}) {
    EXPECT_FALSE(ParseCompareOrder(text)) << text;
    EXPECT_FALSE(ParseCompareAnswer(text)) << text;
  }
}

TEST(CompareAnswerTest, FiguresThatAreNotThereAreNothing) {
  CompareAnswer answer;
  EXPECT_EQ(answer.OperationsPerSecond(), 0);
  answer.run = {{"operations_per_s", 12.5}, {"write_amplification", nullptr}};
  EXPECT_EQ(answer.OperationsPerSecond(), 12.5);
  EXPECT_FALSE(answer.Figure("write_amplification"));
  EXPECT_FALSE(answer.Figure("space_amplification"));
}

}  // namespace
}  // namespace harness

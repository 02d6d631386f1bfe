// The contest's phases over a store in memory: what they count, and what they find wrong.
#include "harness/compare/process.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "test/e2e/engine_fixture.h"
#include "test/harness/bench/memory_store.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

class ContestTest : public ::testing::Test {
 protected:
  ContestTest() {
    order_.thread_count = 4;
    order_.record_count = 1000;
    order_.phase_seconds = 60;
  }

  Status Run(const char* phase) {
    order_.phase = phase;
    result_ = BenchResult();
    uint64_t written_count = 0;
    const Status status = Contest(order_).Run(&store_, {}, &result_, &written_count);
    if (status.ok()) order_.written_count = written_count;
    return status;
  }
  // Operations of the timeline.
  uint64_t TimelineSum() const {
    uint64_t sum = 0;
    for (const BenchSecond& second : result_.timeline) sum += second.operations;
    return sum;
  }

  CompareOrder order_;
  MemoryStore store_;
  BenchResult result_;
};

TEST_F(ContestTest, WritesThenReadsThenRangesTwice) {
  ASSERT_TRUE(Run(kWritePhase).ok());
  EXPECT_TRUE(result_.finished);
  EXPECT_EQ(result_.operations, 1000u);
  EXPECT_EQ(result_.written_bytes, 1000 * RecordBytes());
  EXPECT_EQ(TimelineSum(), 1000u);
  EXPECT_EQ(order_.written_count, 1000u);
  EXPECT_EQ(store_.records().size(), 1000u);
  EXPECT_EQ(result_.Latency().count(), 1000u);

  ASSERT_TRUE(Run(kReadPhase).ok());
  EXPECT_TRUE(result_.finished);
  EXPECT_EQ(result_.operations, 1000u);
  EXPECT_EQ(result_.written_bytes, 0u);

  ASSERT_TRUE(Run(kRangePhase).ok());
  EXPECT_TRUE(result_.finished);
  EXPECT_EQ(result_.operations, 1000u * 4 * 2);
  EXPECT_EQ(TimelineSum(), 1000u * 4 * 2);
  EXPECT_TRUE(Contest(order_).ReadOne(&store_).ok());
}

TEST_F(ContestTest, ValuesHaveTheSizeOfTheOrder) {
  for (const uint32_t value_bytes : {8, 100, 16384}) {
    order_.value_bytes = value_bytes;
    MemoryStore store(value_bytes);
    uint64_t written_count = 0;
    for (const char* phase : {kWritePhase, kReadPhase, kRangePhase}) {
      order_.phase = phase;
      const Status status = Contest(order_).Run(&store, {}, &result_, &written_count);
      ASSERT_TRUE(status.ok()) << phase << status.ToString();
      order_.written_count = written_count;
      EXPECT_EQ(result_.bytes, result_.operations * (8 + value_bytes)) << phase;
    }
    for (const auto& [key, value] : store.records()) ASSERT_EQ(value.size(), value_bytes);
  }
}

TEST_F(ContestTest, WhatWasWrittenWhenTheTimeWasUpIsRead) {
  store_.delay = std::chrono::microseconds(1000);
  order_.phase_seconds = 0.1;
  ASSERT_TRUE(Run(kWritePhase).ok());
  EXPECT_FALSE(result_.finished);
  EXPECT_GT(result_.operations, 0u);
  EXPECT_LT(result_.operations, 1000u);
  EXPECT_EQ(order_.written_count, result_.operations);
  EXPECT_EQ(store_.records().size(), result_.operations);
  store_.delay = {};
  order_.phase_seconds = 60;
  ASSERT_TRUE(Run(kReadPhase).ok());
  EXPECT_TRUE(result_.finished);
  ASSERT_TRUE(Run(kRangePhase).ok());
  EXPECT_EQ(result_.operations, order_.written_count * 4 * 2);
}

TEST_F(ContestTest, TheRestIsWrittenLater) {
  order_.phase_seconds = 1e-9;
  ASSERT_TRUE(Run(kWritePhase).ok());
  EXPECT_FALSE(result_.finished);
  const uint64_t first_count = order_.written_count;
  // Each thread writes one at least.
  EXPECT_GE(first_count, 4u);
  ASSERT_LT(first_count, 1000u);
  order_.phase_seconds = 60;
  ASSERT_TRUE(Run(kWriteRestPhase).ok());
  EXPECT_TRUE(result_.finished);
  EXPECT_EQ(result_.operations, 1000 - first_count);
  EXPECT_EQ(order_.written_count, 1000u);
  ASSERT_TRUE(Run(kRangePhase).ok());
  EXPECT_EQ(result_.operations, 1000u * 4 * 2);
}

TEST_F(ContestTest, EachOpeningReadsARecordOfItsOwn) {
  ASSERT_TRUE(Run(kWritePhase).ok());
  std::set<uint64_t> keys;
  for (order_.round = 0; order_.round < 3; ++order_.round) {
    for (order_.opening = 0; order_.opening < 10; ++order_.opening) {
      store_.last_key = 0;
      ASSERT_TRUE(Contest(order_).ReadOne(&store_).ok());
      keys.insert(store_.last_key);
    }
  }
  // Two of 30 draws out of 1000 may meet.
  EXPECT_GT(keys.size(), 25u);
}

TEST_F(ContestTest, ARangeEndsWithItsTime) {
  ASSERT_TRUE(Run(kWritePhase).ok());
  store_.delay = std::chrono::microseconds(1000);
  order_.phase_seconds = 0.1;
  ASSERT_TRUE(Run(kRangePhase).ok());
  EXPECT_FALSE(result_.finished);
  EXPECT_GT(result_.operations, 0u);
  EXPECT_LT(result_.operations, 1000u * 4 * 2);
}

// Sanitizers need the address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Nor do the others wait for it, although a range of few records never looks at the clock.
TEST_F(ContestTest, AThreadThatCannotBeStartedIsAFailure) {
  order_.record_count = 10;
  ASSERT_TRUE(Run(kWritePhase).ok());
  const int code = test::InChild([this] {
    constexpr unsigned kPatienceSeconds = 60;
    constexpr rlim_t kStackBytes = rlim_t{1} << 30;
    ::alarm(kPatienceSeconds);
    // Stacks for a few threads, and less than one to spare.
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kStackBytes);
    ::pthread_setattr_default_np(&attributes);
    const rlimit limit = {kStackBytes * 9 / 2, kStackBytes * 9 / 2};
    ::setrlimit(RLIMIT_AS, &limit);
    order_.thread_count = 16;
    return Run(kRangePhase).code() == Code::kIOError ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}
#endif  // no sanitizer

TEST_F(ContestTest, FindsWhatIsMissingOrWrong) {
  ASSERT_TRUE(Run(kWritePhase).ok());
  auto& records = store_.records();
  const auto intact = records;
  records.erase(records.begin());
  EXPECT_EQ(Run(kRangePhase).code(), Code::kCorruption);
  EXPECT_FALSE(result_.finished);
  records = intact;
  for (auto& [key, value] : records) value[0] ^= 1;
  EXPECT_EQ(Run(kRangePhase).code(), Code::kCorruption);
  EXPECT_EQ(Run(kReadPhase).code(), Code::kCorruption);
  EXPECT_EQ(Contest(order_).ReadOne(&store_).code(), Code::kCorruption);
  records.clear();
  EXPECT_EQ(Run(kReadPhase).code(), Code::kNotFound);
}

TEST_F(ContestTest, AFailureEndsThePhase) {
  store_.most_records = 100;
  EXPECT_EQ(Run(kWritePhase).code(), Code::kFull);
  EXPECT_FALSE(result_.finished);
  order_.written_count = 0;
  EXPECT_EQ(Run(kReadPhase).code(), Code::kInvalidArgument);
  EXPECT_EQ(Contest(order_).ReadOne(&store_).code(), Code::kInvalidArgument);
}

// Orders and answers of phases' processes, there and back.

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

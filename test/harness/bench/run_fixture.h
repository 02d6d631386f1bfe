// Runs benchmarks over a store in memory.
#ifndef TEST_HARNESS_BENCH_RUN_FIXTURE_H_
#define TEST_HARNESS_BENCH_RUN_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "harness/bench/benchmark.h"
#include "test/harness/bench/memory_store.h"

namespace engine_race::harness {

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    config_.num = 500;
    config_.thread_count = 3;
  }

  BenchResult Run(const std::string& benchmark, Code expected = Code::kOk) {
    config_.benchmark = benchmark;
    BenchResult result;
    const Status status = RunBenchmark(config_, &store_, &result);
    EXPECT_EQ(status.code(), expected) << benchmark << ": " << status.ToString();
    return result;
  }

  std::set<uint64_t> Keys() const {
    std::set<uint64_t> keys;
    for (const auto& [key, value] : store_.Snapshot()) keys.insert(key);
    return keys;
  }

  BenchConfig config_;
  MemoryStore store_;
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_BENCH_RUN_FIXTURE_H_

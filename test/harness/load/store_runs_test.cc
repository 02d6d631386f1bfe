#include "harness/load/store_runs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine_race/base/key.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kRecords = 3000;

class StoreRunsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.bucket_count = 16;
    options_.file_count = 4;
    StoreRuns runs(shape_);
    EXPECT_EQ(runs.Write(options_, 2).request_count, kRecords) << runs.failure();
  }
  // Opens the store with a shape that may not match it.
  std::unique_ptr<StoreRuns> Open(const StoreShape& shape) {
    auto runs = std::make_unique<StoreRuns>(shape);
    const Status opened = runs->Open(options_);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return runs;
  }

  const test::TempDir temp_{test::FastParent()};
  const StoreShape shape_{temp_.path() + "/store", "", kRecords, 5};
  Options options_;
};

TEST_F(StoreRunsTest, ARunReadsAsOftenAsItIsTold) {
  const std::unique_ptr<StoreRuns> reads = Open(shape_);
  for (const DrawShape drawn : {DrawShape::kUniform, DrawShape::kZipfian}) {
    const RecordDraw draw(drawn, kRecords);
    for (const uint32_t keys_per_call : {0u, 1u, 64u}) {
      for (const uint64_t count : {1ull, 7ull, 1000ull}) {
        TimedPoint run;
        const Status status = reads->ReadDrawn(draw, {3, keys_per_call, 0, count}, 1, &run);
        ASSERT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(run.request_count, count);
      }
    }
  }
}

TEST_F(StoreRunsTest, ARunByTheClockReadsSomethingAndEnds) {
  const std::unique_ptr<StoreRuns> reads = Open(shape_);
  TimedPoint run;
  const RecordDraw draw(DrawShape::kUniform, kRecords);
  ASSERT_TRUE(reads->ReadDrawn(draw, {2, 0, 0.01, 0}, 1, &run).ok());
  EXPECT_GT(run.request_count, 0u);
  EXPECT_GE(run.seconds, 0.01);
}

TEST_F(StoreRunsTest, EverythingIsReadOnce) {
  const std::unique_ptr<StoreRuns> reads = Open(shape_);
  for (const uint32_t threads : {1u, 3u}) {
    const Status status = reads->ReadEachOnce(threads, 100);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  TimedPoint ranged;
  EXPECT_TRUE(reads->RangeOnce(2, &ranged).ok());
  EXPECT_EQ(ranged.request_count, kRecords);
}

TEST_F(StoreRunsTest, WhatIsNotThereFailsTheRun) {
  StoreShape longer = shape_;
  longer.record_count = kRecords + 1;
  const std::unique_ptr<StoreRuns> reads = Open(longer);
  EXPECT_FALSE(reads->ReadEachOnce(2, 100).ok());
  TimedPoint run;
  EXPECT_EQ(reads->RangeOnce(1, &run).code(), Code::kCorruption);
  const RecordDraw draw(DrawShape::kUniform, kRecords * 2);
  EXPECT_FALSE(reads->ReadDrawn(draw, {1, 0, 0, 1000}, 1, &run).ok());
  EXPECT_FALSE(reads->ReadDrawn(draw, {1, 10, 0, 1000}, 1, &run).ok());
}

TEST_F(StoreRunsTest, OtherValuesFailTheRun) {
  {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options_, shape_.dir, &store).ok());
    const StoreRuns runs(shape_);
    for (uint64_t i = 0; i < kRecords; ++i) {
      const std::string value(kValueSize, 'x');
      ASSERT_TRUE(store->Write(KeyBytes(runs.KeyAt(i)).view(), value).ok());
    }
  }
  const std::unique_ptr<StoreRuns> reads = Open(shape_);
  const RecordDraw draw(DrawShape::kUniform, kRecords);
  TimedPoint run;
  EXPECT_FALSE(reads->ReadDrawn(draw, {1, 0, 0, 100}, 1, &run).ok());
  EXPECT_FALSE(reads->ReadDrawn(draw, {1, 50, 0, 100}, 1, &run).ok());
}

}  // namespace
}  // namespace engine_race::harness

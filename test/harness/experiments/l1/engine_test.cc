// The engine's part of bin/claims l1, with stores so small that its figures mean nothing. Each
// figure must be there, and its reads must have found the right values.
#include "harness/experiments/l1/engine.h"

#include <gtest/gtest.h>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr ClaimTarget kEngineTargets[] = {
    {kZipfGain, ""}, {kHitRate, ""}, {kUniformCost, ""}, {kHotRead, ""}, {kSecondEpoch, ""}};

class L1EngineTest : public ::testing::Test {
 protected:
  L1EngineTest() {
    shape_.dir = shape_.tmpfs_dir = temp_.path();
    shape_.memory_budget_bytes = uint64_t{64} << 20;
    shape_.record_count = 32768;
    shape_.bucket_count = 16;
    shape_.thread_count = 4;
    shape_.keys_per_call = 100;
    shape_.warming_read_count = 20000;
    shape_.probe_read_count = 10000;
    shape_.uniform_record_count = 65536;
    shape_.hot_record_count = 4000;
    shape_.epoch_record_count = 4000;
    shape_.round_count = 2;
    shape_.seconds = 0.01;
  }

  const test::TempDir temp_{test::FastParent()};
  L1EngineShape shape_;
  ClaimRounds rounds_{kEngineTargets};
};

TEST_F(L1EngineTest, ZipfianReadsAreComparedAndTheHitRateOutlivesAScan) {
  L1Engine engine(shape_, &rounds_);
  Status status = engine.CompareZipf();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(rounds_.rounds(kZipfGain).size(), 2u);
  EXPECT_GT(rounds_.Median(kZipfGain), 0);
  // The budget holds half of the values, less its other uses.
  EXPECT_GT(rounds_.Median("zipfian Read, hit rate"), 0.2);
  status = engine.ScanOnce();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(rounds_.Median(kHitRate), 0.5);
}

TEST_F(L1EngineTest, UniformReadsAreComparedByTheirCpu) {
  L1Engine engine(shape_, &rounds_);
  const Status status = engine.CompareUniform();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(rounds_.rounds(kUniformCost).size(), 2u);
  EXPECT_LT(rounds_.Median("uniform Read, hit rate"), 0.1);
}

TEST_F(L1EngineTest, HotReadsAreComparedWithCopies) {
  L1Engine engine(shape_, &rounds_);
  const Status status = engine.CompareHot();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(rounds_.rounds(kHotRead).size(), 2u);
  EXPECT_GT(rounds_.Median(kHotRead), 0);
}

TEST_F(L1EngineTest, TheSecondEpochFindsTheValuesInFrames) {
  L1Engine engine(shape_, &rounds_);
  const Status status = engine.CompareEpochs();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(rounds_.rounds(kSecondEpoch).size(), 2u);
  EXPECT_GT(rounds_.Median("epochs, hits for each record"), 0.9);
}

}  // namespace
}  // namespace engine_race::harness

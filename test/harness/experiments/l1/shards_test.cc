// The part of bin/claims l1 about sharing nothing: it makes the lookups that it counts, and notices
// wrong answers.
#include "harness/experiments/l1/index_race.h"

#include <gtest/gtest.h>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr ClaimTarget kShardTargets[] = {{kSharedNothing, ""}};

class L1ShardsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status opened = L1Files::Open(temp_.path(), records_, &files_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    shape_.thread_count = 2;
    shape_.rounds = {2, 0.001, 0.001, 1};
  }

  const test::TempDir temp_{test::FastParent()};
  const L1Records records_{{16, 8}, 5, 4000, 7};
  std::unique_ptr<L1Files> files_;
  L1ShardsShape shape_;
  ClaimRounds rounds_{kShardTargets};
};

TEST_F(L1ShardsTest, EveryWayFindsWhatThereIs) {
  L1Shards shards(shape_, files_.get(), &rounds_);
  Status status = shards.Prepare();
  ASSERT_TRUE(status.ok()) << status.ToString();
  const L1Lookups lookups(records_, L1Draw{2048});
  status = shards.Compare(lookups);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(rounds_.rounds(kSharedNothing).size(), 2u);
  EXPECT_GT(rounds_.Claims().at(kSharedNothing), 0);
  EXPECT_EQ(shards.Describe()["workers"], 2);
}

TEST_F(L1ShardsTest, WhatIsNotFoundFailsARun) {
  L1Shards shards(shape_, files_.get(), &rounds_);
  ASSERT_TRUE(shards.Prepare().ok());
  L1Records others = records_;
  others.seed = 8;
  const L1Lookups lookups(others, L1Draw{2048});
  TimedPoint run;
  EXPECT_EQ(shards.RunWorkers(lookups, {2, 0.001, 0, 0}, &run).code(), Code::kNotFound);
  EXPECT_EQ(RunLookups(lookups, {1, 0.001, 0, 0}, shards.ByTable(), &run).code(), Code::kNotFound);
  EXPECT_EQ(shards.Compare(lookups).code(), Code::kNotFound);
}

}  // namespace
}  // namespace engine_race::harness

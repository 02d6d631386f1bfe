// The variants of the engine's lookups: all of them find the same records.
#include "harness/experiments/l1/index_race.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

class L1IndexRaceTest : public ::testing::Test {
 protected:
  L1IndexRaceTest() {
    config_.dir = dir_.path();
    config_.thread_counts = {1, 2};
    config_.rounds = {1, 0.002, 0.002, 1};
    config_.lookup_count = 8 * L1Lookups::kChunk;
  }

  test::TempDir dir_{test::FastParent()};
  L1RaceConfig config_;
  const uint64_t key_count_ = 150000;  // two buckets
};

TEST_F(L1IndexRaceTest, EveryVariantFindsTheSameRecords) {
  L1IndexRace race(config_, key_count_);
  const Status prepared = race.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.ToString();
  const L1Lookups& lookups = race.lookups();
  ASSERT_EQ(lookups.chunk_count(), 8u);
  for (const L1IndexRace::Variant& variant : race.variants()) {
    for (uint64_t i = 0; i < lookups.chunk_count(); ++i) {
      const L1Chunk chunk = lookups.chunk(i);
      const std::span keys(reinterpret_cast<const uint64_t*>(chunk.keys), L1Lookups::kChunk);
      uint64_t sum = 0;
      const Status found = variant.find(keys, &sum);
      ASSERT_TRUE(found.ok()) << variant.name << ": " << found.ToString();
      EXPECT_EQ(sum, chunk.sum) << variant.name;
    }
    const uint64_t absent = 0;
    uint64_t sum = 0;
    EXPECT_EQ(variant.find({&absent, 1}, &sum).code(), Code::kNotFound) << variant.name;
  }
}

TEST_F(L1IndexRaceTest, MeasuresEveryVariant) {
  Experiments tables;
  std::set<std::string> names;
  L1IndexRace race(config_, key_count_);
  ASSERT_TRUE(race.Prepare().ok());
  const Status compared = race.Compare(&tables);
  ASSERT_TRUE(compared.ok()) << compared.ToString();
  for (const L1IndexRace::Variant& variant : race.variants()) names.insert(variant.name);
  ASSERT_EQ(tables.size(), 1u);
  std::set<std::string> measured;
  for (const ResultRow& row : tables[0].rows) {
    measured.insert(row["step"]);
    EXPECT_GT(double{row["lookups_per_second"]}, 0) << row;
    EXPECT_GT(double{row["over_baseline"]}, 0) << row;
  }
  EXPECT_EQ(measured, names);
  EXPECT_EQ(tables[0].rows.size(), 2 * names.size());
}

// The part of bin/claims l1 about sharing nothing: it makes the lookups that it counts, and notices
// wrong answers.

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

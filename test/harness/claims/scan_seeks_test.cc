#include "harness/claims/scan_seeks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

class ScanSeeksTest : public ::testing::Test {
 protected:
  ScanShape Shape(uint64_t key_count) const {
    return {.dir = dir_.path(), .key_count = key_count, .round_count = 1, .seconds = 0.01};
  }

  const test::TempDir dir_{test::FastParent()};
  ClaimRounds rounds_{{}};
};

TEST_F(ScanSeeksTest, SeeksOverFewKeysAreMeasuredInBothStores) {
  const Status status = CompareSparseSeeks(Shape(10), &rounds_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(rounds_.Median(kSparseSeek), 0);
  EXPECT_GT(rounds_.Median(kSparseSeekWide), 0);
}

TEST_F(ScanSeeksTest, SeeksFindTheFirstKeyThatWasNotDeleted) {
  const Status status = SeekAfterDeletes(Shape(20000), &rounds_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(rounds_.Median(kSeekAfterDeletes), 0);
}

TEST_F(ScanSeeksTest, WalksOverAPagedIndexFindAllKeys) {
  const Status status = WalkPagedKeys(Shape(50000), &rounds_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(rounds_.Median("walk over a paged index, Mkeys/s"), 0);
  EXPECT_GT(rounds_.Median("walk over a paged index backwards, Mkeys/s"), 0);
}

// A load without a victim fails. A round would not end if scans never lacked a chunk.
TEST(BoardCostTest, EachLoadFindsAVictim) {
  for (const uint32_t scan_count : {1u, 7u, 32u}) {
    ClaimRounds rounds{{}};
    const Status status = MeasureBoardCost(
        {.chunk_count = 64 * 32, .scan_count = scan_count, .load_count = 3000, .round_count = 1},
        &rounds);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_GT(rounds.Median(kBoardCost), 0);
  }
}

// The answers of the short ranges of bin/claims scan, against an opponent whose answers are known.

constexpr uint64_t kKeyCount = 30000;

// A sorted vector; `lie` is added to each sum.
class VectorRanges : public RocksRanges {
 public:
  VectorRanges(std::span<const uint64_t> keys, uint64_t lie)
      : keys_(keys.begin(), keys.end()), lie_(lie) {}

  QueryRun Run(uint64_t seed, double seconds) override {
    return RunQueries(seed, seconds, [this](const RangeStarts& starts) {
      uint64_t sum = lie_;
      for (const uint64_t start : starts) {
        auto key = std::lower_bound(keys_.begin(), keys_.end(), start);
        for (uint32_t i = 0; i < kKeysPerRange && key != keys_.end(); ++i) sum += *key++;
      }
      return sum;
    });
  }

  nlohmann::json Describe() const override { return {{"records", keys_.size()}}; }

 private:
  const std::vector<uint64_t> keys_;
  const uint64_t lie_;
};

class ScanRangesTest : public ::testing::Test {
 protected:
  Status CompareWithLie(uint64_t lie) {
    rounds_.SetTargets({{"select_random_ranges_gain", "", "", kEachRange, kKeptRange},
                        {"vs_rocksdb_ranges", "", "", kRocksRange, kLatestRange}});
    ScanRanges ranges({temp_.path(), kKeyCount, 2, 0.001, 7}, &rounds_);
    nlohmann::json settings;
    ENGINE_RACE_RETURN_IF_ERROR(ranges.Prepare());
    ENGINE_RACE_RETURN_IF_ERROR(ranges.CompareIterators());
    const Status compared = ranges.CompareRocks(
        [&](const std::string&, std::span<const uint64_t> keys,
            std::unique_ptr<RocksRanges>* made) {
          EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
          *made = std::make_unique<VectorRanges>(keys, lie);
          return Status::Ok();
        },
        &settings);
    if (compared.ok()) {
      EXPECT_EQ(settings["records"], kKeyCount);
    }
    return compared;
  }

  test::TempDir temp_{test::FastParent()};
  ClaimRounds rounds_{{}};
};

TEST_F(ScanRangesTest, EverybodyFindsTheSameKeys) {
  const Status compared = CompareWithLie(0);
  ASSERT_TRUE(compared.ok()) << compared.ToString();
  for (const char* claim : {"select_random_ranges_gain", kSetup, kRefresh, "vs_rocksdb_ranges"}) {
    ASSERT_TRUE(rounds_.has(claim)) << claim;
    EXPECT_EQ(rounds_.rounds(claim).size(), 2U) << claim;
  }
}

TEST_F(ScanRangesTest, OtherKeysFailTheBench) {
  EXPECT_EQ(CompareWithLie(1).code(), Code::kCorruption);
}

}  // namespace
}  // namespace engine_race::harness

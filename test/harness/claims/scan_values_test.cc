// The scans of bin/claims scan that take values, tiny and beside an opponent that can lose records.
#include "harness/claims/scan_values.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/load/store_basics.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using Records = std::map<uint64_t, std::vector<char>>;

class MapCursor final : public KvCursor {
 public:
  explicit MapCursor(const Records& records) : records_(records), at_(records.end()) {}

  void SeekToFirst() override { at_ = records_.begin(); }
  void SeekToLast() override { at_ = std::prev(records_.end()); }
  void Seek(uint64_t key) override { at_ = records_.lower_bound(key); }
  void Next() override { ++at_; }
  void Prev() override { --at_; }
  bool Valid() override { return at_ != records_.end(); }
  uint64_t Key() override { return at_->first; }
  const char* Value() override { return at_->second.data(); }
  Status Error() override { return Status::Ok(); }

 private:
  const Records& records_;
  Records::const_iterator at_;
};

// Leaves out the first `lost_count` records that it is given.
class MapRecords final : public RocksRecords {
 public:
  MapRecords(const RocksRecordsShape& shape, uint64_t lost_count) {
    for (uint64_t i = lost_count; i < shape.record_count; ++i) {
      const uint64_t key = shape.key_at(i);
      shape.fill(key, records_.try_emplace(key, kValueSize).first->second.data());
    }
  }

  Status Get(uint64_t, std::string*) override { return Status::NotFound(); }
  std::unique_ptr<KvCursor> NewCursor() override { return std::make_unique<MapCursor>(records_); }
  nlohmann::json Describe() const override { return {{"records", records_.size()}}; }

 private:
  Records records_;
};

MakeRocksRecordsFn MapMaker(uint64_t lost_count) {
  return [lost_count](const std::string&, const RocksRecordsShape& shape,
                      std::unique_ptr<RocksRecords>* made) {
    *made = std::make_unique<MapRecords>(shape, lost_count);
    return Status::Ok();
  };
}

class ScanValuesTest : public ::testing::Test {
 protected:
  ScanShape Shape() const { return {temp_.path(), 3000, 2, 0.002, 7}; }
  static Options FewBuckets() {
    Options options = QuietOptions();
    options.bucket_count = 32;
    return options;
  }

  static void IsOk(const Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

  void ExpectRounds(const std::vector<const char*>& figures) {
    for (const char* figure : figures) {
      ASSERT_TRUE(rounds_.has(figure)) << figure;
      EXPECT_EQ(rounds_.rounds(figure).size(), 2U) << figure;
    }
  }

  test::TempDir temp_{test::FastParent()};
  ClaimRounds rounds_{{}};
};

TEST_F(ScanValuesTest, BothSidesOfAComparisonFindTheRecords) {
  ScanValues values(Shape(), FewBuckets(), &rounds_);
  IsOk(values.Prepare());
  nlohmann::json settings;
  IsOk(values.CompareWarm(MapMaker(0), &settings));
  EXPECT_EQ(settings["blobs"]["records"], 3000);
  IsOk(values.CompareCold(MapMaker(0), &settings));
  ExpectRounds(
      {kShortRange, kShortRangeRocks, kShortWalk, kShortWalkRocks, kColdRange, kColdRangeRocks});
}

TEST_F(ScanValuesTest, AMissingRecordFailsTheBench) {
  ScanValues values(Shape(), FewBuckets(), &rounds_);
  IsOk(values.Prepare());
  nlohmann::json settings;
  EXPECT_EQ(values.CompareWarm(MapMaker(1), &settings).code(), Code::kCorruption);
}

TEST_F(ScanValuesTest, EveryScanOfTheStoreIsMeasured) {
  ScanValues values(Shape(), FewBuckets(), &rounds_);
  IsOk(values.Prepare());
  IsOk(values.FirstRecords(/*warm=*/false));
  IsOk(values.FirstRecords(/*warm=*/true));
  IsOk(values.WholeWalks());
  IsOk(values.InMemory(100));
  ExpectRounds({kFirstCold, kFirstWarm, kLiveScan, kSnapshotScan, kIteratorWalk, kFirstWalk,
                kSecondWalk, kLiveHotReads, kSnapshotHotReads});
}

TEST_F(ScanValuesTest, TheClaimOfReadingAheadIsTheWorstRatio) {
  rounds_.SetTargets({{kPrefetchDefault, ">= 0.95"}});
  ScanValues values(Shape(), FewBuckets(), &rounds_);
  IsOk(values.Prepare());
  IsOk(values.Prefetches());
  const double worst = rounds_.Claims().at(kPrefetchDefault);
  for (const char* length : {"1", "10", "100", "1500"}) {
    for (const char* other : {"1", "10", "64"}) {
      EXPECT_LE(worst, rounds_.Median("walks of " + std::string(length) + ", default over " +
                                      other + " at once"));
    }
  }
}

}  // namespace
}  // namespace engine_race::harness

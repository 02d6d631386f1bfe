#include "harness/claims/benches.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/claims/space_measurements.h"
#include "harness/claims/space_runs.h"
#include "test/test_util.h"

namespace harness {
namespace {

using engine_race::Code;
using engine_race::Reclaim;
using engine_race::Status;
using engine_race::Store;
using engine_race::test::FastParent;
using engine_race::test::TempDir;

SpaceConfig TinyConfig(const std::string& dir) {
  SpaceConfig config;
  config.dir = dir;
  config.memory_dir = dir;
  config.data_bytes = uint64_t{2} << 20;
  config.pass_count = 2;
  config.thread_count = 3;
  config.round_count = 2;
  config.seconds = 0.05;
  config.ramp_seconds = 0.02;
  config.precondition_pass_count = 1;
  config.sample_seconds = 0.01;
  config.memory_budget_bytes = uint64_t{64} << 20;
  config.read_rate = 400;
  config.read_thread_count = 2;
  config.write_rate = 400;
  config.cost_bytes = uint64_t{1} << 20;
  config.cost_thread_count = 2;
  config.cost_round_count = 2;
  return config;
}

TEST(SpaceBenchTest, ATinyRunMeasuresEveryClaimAndLeavesNothing) {
  const TempDir dir(FastParent());
  const std::unique_ptr<Bench> bench = MakeSpaceBench();
  for (const Setting& setting : bench->Settings()) {
    if (setting.smoke != kSame) setting.Set(setting.name.ends_with("rounds") ? 2 : setting.smoke);
  }
  ASSERT_EQ(bench->Refusal({.parent = dir.path(), .tmpfs = dir.path()}), "");
  EXPECT_TRUE(bench->Measure());
  for (const std::string& error : bench->errors()) ADD_FAILURE() << error;
  EXPECT_TRUE(std::filesystem::is_empty(bench->dir()));
  EXPECT_TRUE(std::filesystem::is_empty(bench->tmpfs_dir()));
  const nlohmann::json json = bench->ToJson();
  for (const ClaimTarget& target : bench->targets()) {
    const bool needs_rocks = std::string(target.name) == "vs_rocksdb_overwrite";
    EXPECT_EQ(json.at("claims").contains(target.name), !needs_rocks || HasRocks()) << target.name;
  }
  // Every round of a comparison is there.
  EXPECT_EQ(json.at("rounds").at("overwrite_vs_fresh").size(), 2u);
  EXPECT_EQ(json.at("rounds").at("read_p99_under_reclaim").size(), 2u);
  EXPECT_EQ(json.at("rounds").at("no_overwrite_cost").size(), 2u);
  EXPECT_GT(json.at("claims").at("overwrite_space_amplification"), 1.0);
  EXPECT_GE(json.at("about").at("overwrite").at("samples").size(), 2u);
}

class WatchTest : public ::testing::Test {
 protected:
  Status Watched(const PutFn& put, const WatchEnd& end) {
    const SpaceRecords records(config_.record_count(), 1);
    Overwriters writers(records, {}, put);
    const std::string dir = dir_.path();
    const SpaceProbe probe(dir, nullptr, writers);
    return Watch(config_, "", writers, probe, end, &samples_);
  }
  static Status Written(uint64_t /*key*/, const char* /*value*/) { return Status::Ok(); }

  const TempDir dir_{FastParent()};
  SpaceConfig config_ = TinyConfig(dir_.path());
  SpaceSamples samples_;
};

TEST_F(WatchTest, TheLastSampleIsTakenOnceTheWritesAreDone) {
  const Status watched = Watched(Written, {.write_count = 1000});
  EXPECT_TRUE(watched.ok()) << watched.ToString();
  ASSERT_GE(samples_.size(), 2u);
  EXPECT_GE(samples_.back().write_count - samples_.front().write_count, 1000u);
}

TEST_F(WatchTest, EndsInTimeWhateverTheWritersDo) {
  std::ofstream(dir_.path() + "/value") << std::string(100000, 'x');
  const Status watched = Watched(Written, {.seconds = 0.03});
  EXPECT_TRUE(watched.ok()) << watched.ToString();
  EXPECT_GE(samples_.back().seconds - samples_.front().seconds, 0.03);
  EXPECT_GE(samples_.back().disk_bytes, 100000u);
}

TEST_F(WatchTest, AStoreThatTakesTooMuchEndsIt) {
  config_.slack_bytes = 0;
  config_.data_bytes = 16 * kValueSize;
  std::ofstream(dir_.path() + "/value") << std::string(40 * kValueSize, 'x');
  EXPECT_EQ(Watched(Written, {}).code(), Code::kFull);
}

TEST_F(WatchTest, AFailedWriteEndsIt) {
  const PutFn put = [](uint64_t, const char*) { return Status::IOError("bad block"); };
  EXPECT_EQ(Watched(put, {}).code(), Code::kIOError);
}

TEST(SpaceProbeTest, CountsOfTheStoreAreInTheSample) {
  const TempDir dir(FastParent());
  const SpaceConfig config = TinyConfig(dir.path());
  const SpaceRecords records(config.record_count(), 1);
  std::unique_ptr<Store> store;
  const std::string path = dir.Join("store");
  ASSERT_TRUE(Store::Open(SpaceOptions(config, Reclaim::kBackground), path, &store).ok());
  const Overwriters writers(records, {.rate = 1e-9}, PutInto(store.get()));
  const SpaceProbe probe(path, store.get(), writers);
  double rate = 0;
  ASSERT_TRUE(FillRecords(records, 2, PutInto(store.get()), &rate).ok());
  ASSERT_TRUE(store->Sync().ok());
  EXPECT_GT(probe.Take().log_bytes, 0u);
  EXPECT_EQ(probe.Take().log_bytes, store->Stats().log_written_bytes);
  EXPECT_GE(probe.Take().disk_bytes, records.count() * kValueSize);
}

}  // namespace
}  // namespace harness

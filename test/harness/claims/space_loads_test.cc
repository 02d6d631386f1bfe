#include "harness/claims/space_loads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/claims/benches.h"
#include "harness/claims/space_stores.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_runs.h"
#include "harness/system/disk.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::FastParent;
using test::TempDir;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLoopSeed = 5;

TEST(SpaceSamplesTest, AmplificationsAreOverTheBytesOfValues) {
  EXPECT_DOUBLE_EQ(Amplification(3 * kValueSize, 2), 1.5);
  EXPECT_DOUBLE_EQ(Amplification(5 * kValueSize, 0), 0);
}

TEST(SpaceSamplesTest, HalvesAreByWritesNotByTime) {
  const SpaceSamples samples = {{.seconds = 0, .write_count = 100, .disk_bytes = 9},
                                {.seconds = 8, .write_count = 140, .disk_bytes = 8},
                                {.seconds = 9, .write_count = 160, .disk_bytes = 6},
                                {.seconds = 10, .write_count = 200, .disk_bytes = 4}};
  EXPECT_EQ(SecondHalf(samples), 2u);
  EXPECT_EQ(PeakDiskBytes(samples), 6u);
  EXPECT_DOUBLE_EQ(WriteRate(samples.front(), samples.back()), 10);
  EXPECT_DOUBLE_EQ(WriteRate(samples.front(), samples.front()), 0);
  EXPECT_EQ(PeakDiskBytes({}), 0u);
}

TEST(SpaceLoopsTest, AFillWritesEachRecordOnce) {
  const SpaceRecords records(1000, kLoopSeed);
  std::mutex mutex;
  std::map<uint64_t, int> puts;
  TimedPoint point;
  const Status filled = WriteRecords(
      [&](uint64_t key, const char* value) {
        uint64_t version = 0;
        EXPECT_TRUE(records.values().CheckAll(key, value, &version));
        const std::lock_guard lock(mutex);
        ++puts[key];
        return Status::Ok();
      },
      records.keys(), records.values(), 3, &point);
  EXPECT_TRUE(filled.ok()) << filled.ToString();
  EXPECT_EQ(point.request_count, records.count());
  EXPECT_EQ(puts.size(), records.count());
  for (uint64_t i = 0; i < records.count(); ++i) EXPECT_EQ(puts[records.KeyAt(i)], 1) << i;
}

TEST(SpaceLoopsTest, AFailedWriteEndsAFill) {
  const SpaceRecords records(1000, kLoopSeed);
  std::atomic<uint64_t> count{0};
  TimedPoint point;
  const Status filled = WriteRecords(
      [&](uint64_t, const char*) { return ++count == 10 ? Status::IOError("tenth") : Status(); },
      records.keys(), records.values(), 1, &point);
  EXPECT_NE(filled.message().find("tenth"), std::string::npos) << filled.ToString();
  EXPECT_EQ(count, 10u);
}

// The numbers of writes by key, the most frequent first, of one thread that is stopped at `count`.
std::vector<uint64_t> WritesByKey(DrawShape draw, uint64_t count) {
  const SpaceRecords records(1000, kLoopSeed);
  std::map<uint64_t, uint64_t> writes;
  uint64_t written = 0;
  Overwriters writers(records, {.draw = draw, .seed = kLoopSeed},
                      [&](uint64_t key, const char* value) {
                        uint64_t version = 0;
                        EXPECT_TRUE(records.values().CheckAll(key, value, &version));
                        if (written++ == count) return Status::Full("enough");
                        ++writes[key];
                        return Status::Ok();
                      });
  while (!writers.failed()) std::this_thread::yield();
  EXPECT_EQ(writers.count(), count);
  EXPECT_NE(writers.Stop().message().find("enough"), std::string::npos);
  std::vector<uint64_t> sorted;
  for (const auto& [key, number] : writes) sorted.push_back(number);
  std::sort(sorted.rbegin(), sorted.rend());
  return sorted;
}

TEST(SpaceLoopsTest, OverwritersDrawAsTheyAreTold) {
  constexpr uint64_t kWrites = 5000;
  const std::vector<uint64_t> uniform = WritesByKey(DrawShape::kUniform, kWrites);
  EXPECT_GT(uniform.size(), 950u);
  EXPECT_LT(uniform.front(), 30u);
  const std::vector<uint64_t> zipf = WritesByKey(DrawShape::kZipfian, kWrites);
  const double share = static_cast<double>(zipf.front()) / kWrites;
  EXPECT_NEAR(share, ZipfRanks(1000).ShareOf(0), 0.02);
}

// The second thread's first write is due after years.
TEST(SpaceLoopsTest, OverwritersKeepTheirRateAndStopBetweenWrites) {
  const SpaceRecords records(1000, kLoopSeed);
  Overwriters writers(records, {.thread_count = 2, .rate = 1e-9},
                      [](uint64_t, const char*) { return Status::Ok(); });
  while (writers.count() == 0) std::this_thread::yield();
  EXPECT_TRUE(writers.Stop().ok());
  EXPECT_EQ(writers.count(), 1u);
}

// A clock that only moves when it is told to.
struct FakeClock {
  uint64_t now_ns = 7 * kMs;
  std::vector<uint64_t> wakes;

  LoopClock clock() {
    return {[this] { return now_ns; },
            [this](uint64_t ns) {
              wakes.push_back(ns);
              now_ns = ns;
            }};
  }
};

class PacedReadsTest : public ::testing::Test {
 protected:
  // Reads at 1000 a second in one thread. The read of this number takes `slow_ns`, others nothing.
  Status Run(uint64_t slow_read, uint64_t slow_ns) {
    const GetFn get = [&, slow_read, slow_ns](uint64_t key, char* value) {
      if (count_++ == slow_read) clock_.now_ns += slow_ns;
      records_.values().Fill(key, 0, value);
      return Status::Ok();
    };
    const PacedReads reads = {.rate = 1000, .seconds = 0.1, .thread_count = 1, .seed = kLoopSeed};
    return RunPacedReads(records_, reads, get, clock_.clock(), &latency_);
  }

  const SpaceRecords records_{100, kLoopSeed};
  FakeClock clock_;
  uint64_t count_ = 0;
  LatencyHistogram latency_;
};

TEST_F(PacedReadsTest, EachReadBeginsAtItsTime) {
  ASSERT_TRUE(Run(~uint64_t{0}, 0).ok());
  EXPECT_EQ(latency_.count(), 100u);
  EXPECT_EQ(latency_.max_ns(), 0u);
  // The first read is due at once.
  ASSERT_EQ(clock_.wakes.size(), 99u);
  EXPECT_EQ(clock_.wakes.front(), 8 * kMs);
  EXPECT_EQ(clock_.wakes.back(), 106 * kMs);
}

TEST_F(PacedReadsTest, ASlowReadCountsInThoseThatWaitForIt) {
  ASSERT_TRUE(Run(10, 20 * kMs).ok());
  EXPECT_EQ(latency_.count(), 100u);
  EXPECT_EQ(latency_.max_ns(), 20 * kMs);
  // The slow read and the 19 behind it were late by 20 ms, 19 ms, ..., 1 ms.
  EXPECT_EQ(latency_.sum_ns(), 210 * kMs);
  EXPECT_EQ(latency_.PercentileNs(0.80), 0u);
  EXPECT_GT(latency_.PercentileNs(0.81), 0u);
}

TEST_F(PacedReadsTest, AWrongValueIsAFailure) {
  const PacedReads reads = {.rate = 1000, .seconds = 0.1, .thread_count = 1, .seed = kLoopSeed};
  const GetFn get = [&](uint64_t key, char* value) {
    ++count_;
    records_.values().Fill(key + (count_ == 3), 0, value);
    return Status::Ok();
  };
  const Status status = RunPacedReads(records_, reads, get, clock_.clock(), &latency_);
  EXPECT_NE(status.message().find("wrong bytes"), std::string::npos) << status.ToString();
  EXPECT_EQ(count_, 3u);
}

TEST_F(PacedReadsTest, AFailedReadIsAFailure) {
  const PacedReads reads = {.rate = 1000, .seconds = 0.1, .thread_count = 2, .seed = kLoopSeed};
  const GetFn get = [](uint64_t, char*) { return Status(Code::kNotFound, "gone"); };
  const LoopClock clock = {[] { return uint64_t{0}; }, [](uint64_t) {}};
  const Status status = RunPacedReads(records_, reads, get, clock, &latency_);
  EXPECT_NE(status.message().find("gone"), std::string::npos) << status.ToString();
}

class WatchTest : public ::testing::Test {
 protected:
  Status Watched(const PutFn& put, WatchShape shape) {
    shape.sample_seconds = 0.01;
    const SpaceRecords records(512, 1);
    Overwriters writers(records, {}, put);
    const std::string dir = dir_.path();
    const SpaceProbe probe(dir, nullptr, writers);
    return WatchWriters(shape, writers, probe, &samples_);
  }
  static Status Written(uint64_t /*key*/, const char* /*value*/) { return Status::Ok(); }

  const TempDir dir_{FastParent()};
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
  std::ofstream(dir_.path() + "/value") << std::string(40 * kValueSize, 'x');
  EXPECT_EQ(Watched(Written, {.most_bytes = 36 * kValueSize}).code(), Code::kFull);
}

TEST_F(WatchTest, AFailedWriteEndsIt) {
  const PutFn put = [](uint64_t, const char*) { return Status::IOError("bad block"); };
  EXPECT_EQ(Watched(put, {}).code(), Code::kIOError);
}

// The second watch begins where the first one has ended.
TEST_F(WatchTest, TheSamplesOfTheLastWatchAreLeft) {
  const SpaceRecords records(512, 1);
  const WatchShape first = {.write_count = 1000, .sample_seconds = 0.01};
  const WatchShape second = {.write_count = 10, .sample_seconds = 0.01};
  const Status done =
      OverwriteAndWatch({Written, dir_.path()}, records, {}, {first, second}, &samples_);
  EXPECT_TRUE(done.ok()) << done.ToString();
  ASSERT_GE(samples_.size(), 2u);
  EXPECT_GE(samples_.front().write_count, 1000u);
}

TEST_F(WatchTest, AFailedWriteCountsMoreThanTheEndOfTheWatch) {
  const PutFn put = [](uint64_t, const char*) { return Status::Full("no room"); };
  const SpaceRecords records(512, 1);
  EXPECT_EQ(OverwriteAndWatch({put, dir_.path()}, records, {}, {WatchShape{}}, &samples_).code(),
            Code::kFull);
}

TEST(SpaceShapeTest, AStoreBelowHasItsOwnDirectory) {
  SpaceShape shape;
  shape.dir = "/data";
  shape.record_count = 7;
  EXPECT_EQ(shape.Below("store").dir, "/data/store");
  EXPECT_EQ(shape.Below("store").record_count, 7u);
}

TEST(SpaceProbeTest, CountsOfTheStoreAreInTheSample) {
  const TempDir dir(FastParent());
  const SpaceRecords records(512, 1);
  std::unique_ptr<Store> store;
  const std::string path = dir.Join("store");
  ASSERT_TRUE(Store::Open(QuietOptions(), path, &store).ok());
  const PutFn put = [&](uint64_t key, const char* value) {
    return store->Write(KeyBytes(key).view(), {value, kValueSize});
  };
  const Overwriters writers(records, {.rate = 1e-9}, put);
  const SpaceProbe probe(path, store.get(), writers);
  TimedPoint filled;
  ASSERT_TRUE(WriteRecords(put, records.keys(), records.values(), 2, &filled).ok());
  ASSERT_TRUE(store->Sync().ok());
  EXPECT_GT(probe.Take().log_bytes, 0u);
  EXPECT_EQ(probe.Take().log_bytes, store->Stats().log_written_bytes);
  EXPECT_GE(probe.Take().disk_bytes, records.count() * kValueSize);
}

// Claims that need RocksDB, a block device, or children of bin/claims.
const std::set<std::string> kNotHere = {"vs_rocksdb_overwrite",      "overwrite_device_bytes",
                                        "overwrite_vs_fio",          "reopen_after_overwrites",
                                        "writes_in_128_mb",          "hundred_records_disk_mb",
                                        "hundred_records_memory_mb", "hundred_stores_disk_gb",
                                        "hundred_stores_seconds",    "hundred_records_descriptors"};

TEST(SpaceBenchTest, ATinyRunMeasuresEveryClaimAndLeavesNothing) {
  const TempDir dir(FastParent());
  const std::unique_ptr<Bench> bench = MakeSpaceBench();
  for (const Setting& setting : bench->settings()) {
    if (setting.smoke != kSame) setting.Set(setting.name.ends_with("rounds") ? 2 : setting.smoke);
  }
  std::vector<std::string> names;
  for (const ClaimTarget& target : bench->targets()) {
    if (!kNotHere.contains(target.name)) names.emplace_back(target.name);
  }
  if (!LoopDisk::WhyNoXfs().empty()) std::erase(names, "checkpoint_after_overwrites");
  ASSERT_EQ(bench->Refusal({.parent = dir.path(), .tmpfs = dir.path(), .only = names}), "");
  EXPECT_TRUE(bench->Measure());
  for (const std::string& error : bench->errors()) ADD_FAILURE() << error;
  EXPECT_FALSE(std::filesystem::exists(bench->dir()));
  EXPECT_FALSE(std::filesystem::exists(bench->tmpfs_dir()));
  const nlohmann::json json = bench->ToJson();
  for (const std::string& name : names) EXPECT_TRUE(json.at("claims").contains(name)) << name;
  // Every round of a comparison is there. A ratio is not, where a side did nothing in its short
  // time.
  for (const char* figure :
       {"overwrite turns, overwriting, MB/s", "overwrite turns, fill of a new store, MB/s",
        "with reclaim, read p99, us", "without reclaim, read p99, us",
        "fill with reclaim, CPU ns a write", "fill without reclaim, CPU ns a write"}) {
    EXPECT_EQ(json.at("rounds").at(figure).size(), 2u) << figure;
  }
  EXPECT_GT(json.at("claims").at("overwrite_space_amplification"), 1.0);
  EXPECT_GE(json.at("about").at("overwrite").at("samples").size(), 2u);
}

// The works of children of the bench about space, in this process.

class SpaceWorksTest : public ::testing::Test {
 protected:
  Status Run(const char* work, const nlohmann::json& order) {
    return SpaceWorks().at(work)(order, &answer_);
  }

  const TempDir dir_{FastParent()};
  nlohmann::json answer_ = nlohmann::json::object();
};

TEST_F(SpaceWorksTest, SmallStoresAreOpenAtOnce) {
  const auto run = [&](uint64_t store_count) {
    return Run(kSmallStoresWork, {{"parent_dir", dir_.Join(std::to_string(store_count))},
                                  {"store_count", store_count},
                                  {"record_count", 3},
                                  {"seed", 1}});
  };
  const Status one = run(1);
  ASSERT_TRUE(one.ok()) << one.ToString();
  const nlohmann::json of_one = answer_;
  EXPECT_GT(of_one.at("descriptors"), 2u);
  EXPECT_GE(of_one.at("disk_bytes"), 3 * kValueSize);
  EXPECT_GE(of_one.at("disk_bytes"), of_one.at("closed_disk_bytes"));
  const Status two = run(2);
  ASSERT_TRUE(two.ok()) << two.ToString();
  EXPECT_EQ(answer_.at("descriptors"), 2 * of_one.at("descriptors").get<uint64_t>());
}

TEST_F(SpaceWorksTest, WritesInSmallMemoryHaveARate) {
  for (const bool is_written : {false, true}) {
    const Status done = Run(kSmallMemoryWork, {{"store_dir", dir_.Join("store")},
                                               {"cgroup", ""},
                                               {"is_written", is_written},
                                               {"seconds", 60},
                                               {"seed", 1},
                                               {"write_count", 20}});
    ASSERT_TRUE(done.ok()) << done.ToString();
    EXPECT_GT(answer_.at("writes_per_second"), 0);
  }
}

TEST_F(SpaceWorksTest, AnUnknownGroupIsRefused) {
  EXPECT_FALSE(Run(kSmallMemoryWork, {{"cgroup", dir_.Join("missing")}}).ok());
}

}  // namespace
}  // namespace engine_race::harness

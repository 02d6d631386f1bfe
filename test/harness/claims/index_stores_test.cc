// The stores of the bench about the index: works of children, loads, files, budgets.
#include "harness/claims/index_stores.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "engine_race/store.h"
#include "harness/claims/index_bench.h"
#include "harness/load/fill_keys.h"
#include "harness/load/store_basics.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kChildKeys = 3000;
constexpr uint64_t kChildSeed = 5;

class IndexChildTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.bucket_count = 16;
    options_.file_count = 16;
    store_dir_ = dir_.path() + "/store";
    keys_ = std::make_unique<IndexKeys>(options_, kChildKeys, kChildSeed);
    ASSERT_TRUE(FillKeyLogs(options_, store_dir_, kChildKeys, kChildSeed).ok());
  }

  // Runs a child's main in this process. Returns its exit code; *answer gets what it prints.
  static int Main(const std::string& kind, const nlohmann::json& order, std::string* answer) {
    std::vector<std::string> args = {"program", "--child", kind, order.dump(), "0"};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    ::testing::internal::CaptureStdout();
    const auto code = ChildMain(static_cast<int>(argv.size()), argv.data(), IndexWorks());
    std::fflush(stdout);
    *answer = ::testing::internal::GetCapturedStdout();
    return code.value_or(-1);
  }

  nlohmann::json OpenOf(uint64_t first_key, const std::vector<uint64_t>& more_keys) const {
    return {{"store_dir", store_dir_}, {"first_key", first_key}, {"more_keys", more_keys}};
  }
  nlohmann::json BillionOf(uint64_t seed) const {
    return {{"store_dir", store_dir_},
            {"memory_budget_bytes", uint64_t{64} << 20},
            {"bucket_count", 16},
            {"key_count", kChildKeys},
            {"seed", seed},
            {"lookups", 400},
            {"threads", 3}};
  }

  const test::TempDir dir_;
  std::string store_dir_;
  Options options_;
  std::unique_ptr<IndexKeys> keys_;
};

TEST_F(IndexChildTest, OpeningReadsEveryKeyOfItsOrder) {
  std::string answer;
  ASSERT_EQ(Main("open", OpenOf(keys_->PresentKey(1), {keys_->PresentKey(2)}), &answer), 0);
  const auto json = nlohmann::json::parse(answer);
  EXPECT_GT(json.at("seconds").get<double>(), 0);
  EXPECT_GT(json.at("peak_rss_bytes").get<uint64_t>(), 0u);
  nlohmann::json builds = OpenOf(keys_->PresentKey(1), {});
  builds["builds"] = true;
  EXPECT_EQ(Main("open", builds, &answer), 0);
  EXPECT_EQ(Main("open", OpenOf(keys_->PresentKey(1), {keys_->AbsentKey(2)}), &answer), 1);
  EXPECT_EQ(Main("open", OpenOf(keys_->AbsentKey(1), {}), &answer), 1);
}

TEST_F(IndexChildTest, AKilledWriterLeavesItsRecords) {
  const nlohmann::json order = {{"store_dir", store_dir_},
                                {"bucket_count", 16},
                                {"key_count", kChildKeys},
                                {"seed", kChildSeed},
                                {"load", IndexLoad{.writer_count = 2, .write_count = 41}}};
  EXPECT_EXIT(
      {
        std::string answer;
        Main("kill", order, &answer);
      },
      ::testing::KilledBySignal(SIGKILL), "");
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options_, store_dir_, &store).ok());
  EXPECT_EQ(store->Stats().record_count, kChildKeys + 41);
  std::string value;
  for (uint64_t i = 0; i < 21; ++i) {
    EXPECT_TRUE(store->Read(KeyBytes(keys_->New(i)).view(), &value).ok()) << i;
  }
}

TEST_F(IndexChildTest, ABillionKeysAreCountedWhereTheyAreRight) {
  for (const char* kind : {kBillionReadsWork, kBillionSlotsWork}) {
    std::string answer;
    ASSERT_EQ(Main(kind, BillionOf(kChildSeed), &answer), 0) << answer;
    EXPECT_EQ(nlohmann::json::parse(answer).at("right"), 800) << kind;
    EXPECT_EQ(nlohmann::json::parse(answer).at("lookups"), 800) << kind;
  }
}

TEST_F(IndexChildTest, AWrongSlotIsNotRight) {
  // All keys are written anew, in another order, so that most have another slot than before.
  {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options_, store_dir_, &store).ok());
    const std::string value(kValueBytes, 'x');
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint64_t word = (i << 53) + (i << 40);
      ASSERT_TRUE(store->Write(KeyBytes(keys_->PresentKey(word)).view(), value).ok());
    }
  }
  std::string answer;
  ASSERT_EQ(Main(kBillionReadsWork, BillionOf(kChildSeed), &answer), 0);
  EXPECT_EQ(nlohmann::json::parse(answer).at("right"), 800);
  ASSERT_EQ(Main(kBillionSlotsWork, BillionOf(kChildSeed), &answer), 0);
  EXPECT_LT(nlohmann::json::parse(answer).at("right"), 700);
}

TEST_F(IndexChildTest, ALoadReplacesAndAddsHalfEach) {
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options_, store_dir_, &store).ok());
  IndexLoad load;
  load.writer_count = 3;
  load.reader_count = 2;
  load.write_count = 301;
  load.first_new = 7;
  IndexLoadResult result;
  ASSERT_TRUE(RunIndexLoad(store.get(), *keys_, load, &result).ok());
  EXPECT_EQ(result.write_latency.count(), load.write_count);
  EXPECT_EQ(store->Stats().record_count, kChildKeys + load.write_count);
  std::string value;
  for (uint64_t i = 0; i < load.new_key_count(); ++i) {
    EXPECT_TRUE(store->Read(KeyBytes(keys_->New(load.first_new + i)).view(), &value).ok()) << i;
  }
  for (const uint64_t number : {load.first_new - 1, load.first_new + load.new_key_count()}) {
    EXPECT_EQ(store->Read(KeyBytes(keys_->New(number)).view(), &value).code(), Code::kNotFound);
  }
}

TEST(IndexFilesTest, CountsTheDiskSpaceOfTheIndexAlone) {
  const test::TempDir dir;
  EXPECT_EQ(IndexDiskBytes(dir.path()), 0u);
  for (const char* name : {"key_index_00", "key_index_root", "key_00", "value_00"}) {
    std::ofstream(dir.path() + "/" + name) << std::string(3 * 4096, 'x');
  }
  uint64_t expected = 0;
  for (const char* name : {"key_index_00", "key_index_root"}) {
    struct stat status = {};
    ASSERT_EQ(::stat((dir.path() + "/" + name).c_str(), &status), 0);
    expected += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  EXPECT_EQ(IndexDiskBytes(dir.path()), expected);
  RemoveIndexRoot(dir.path());
  RemoveIndexRoot(dir.path());
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/key_index_root"));
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/key_index_00"));
}

TEST(IndexFilesTest, FullBlocksAndRecordsThatFit) {
  EXPECT_EQ(IndexBlockBytes(0), 0u);
  EXPECT_EQ(IndexBlockBytes(255), 4096u);
  EXPECT_EQ(IndexBlockBytes(256), 2 * 4096u);
  EXPECT_EQ(FittingRecords(1000, uint64_t{1} << 40), 1000u);
  EXPECT_EQ(FittingRecords(1000, uint64_t{1} << 20), 0u);
  const uint64_t fitting = FittingRecords(~uint64_t{0}, uint64_t{10} << 30);
  EXPECT_GT(fitting * 4096, uint64_t{8} << 30);
  EXPECT_LT(StoreBytes(fitting), uint64_t{9} << 30);
}

constexpr uint64_t kMiB = 1 << 20;

// A store that takes 50 MiB for itself and gives `part` of the rest to its index.
IndexBytesFn Giving(double part) {
  return [part](uint64_t budget_bytes, uint64_t* index_bytes) {
    const uint64_t rest = budget_bytes - std::min(budget_bytes, 50 * kMiB);
    *index_bytes = static_cast<uint64_t>(static_cast<double>(rest) * part) + 1;
    return Status::Ok();
  };
}

TEST(IndexBudgetTest, FindsTheBudgetFromBothSides) {
  for (const double part : {1.0, 0.5, 0.25}) {
    for (const uint64_t wanted : {2 * kMiB, 20 * kMiB, 500 * kMiB}) {
      IndexBudget found;
      ASSERT_TRUE(FindIndexBudget(wanted, Giving(part), &found).ok());
      EXPECT_TRUE(found.Has(wanted)) << part << " " << wanted << " " << found.index_bytes;
      uint64_t given = 0;
      ASSERT_TRUE(Giving(part)(found.budget_bytes, &given).ok());
      EXPECT_EQ(found.index_bytes, given);
    }
  }
}

TEST(IndexBudgetTest, StopsAtTheLeastBudget) {
  int calls = 0;
  IndexBudget found;
  ASSERT_TRUE(FindIndexBudget(
                  kMiB,
                  [&](uint64_t budget_bytes, uint64_t* index_bytes) {
                    ++calls;
                    EXPECT_GE(budget_bytes, kMinMemoryBudgetBytes);
                    *index_bytes = 100 * kMiB;
                    return Status::Ok();
                  },
                  &found)
                  .ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(found.budget_bytes, kMinMemoryBudgetBytes);
  EXPECT_FALSE(found.Has(kMiB));
}

TEST(IndexBudgetTest, AStoreThatGivesNothingOrFailsEndsTheSearch) {
  IndexBudget found;
  int calls = 0;
  const auto nothing = [&](uint64_t, uint64_t* index_bytes) {
    ++calls;
    *index_bytes = 0;
    return Status::Ok();
  };
  ASSERT_TRUE(FindIndexBudget(kMiB, nothing, &found).ok());
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(found.Has(kMiB));
  const auto fails = [](uint64_t, uint64_t*) { return Status::IOError("disk"); };
  EXPECT_EQ(FindIndexBudget(kMiB, fails, &found).message(), "disk");
}

class ResidentKeysTest : public ::testing::TestWithParam<ResidentKeys> {};

TEST_P(ResidentKeysTest, DistinctKeysFillTheirBuckets) {
  Options options;
  options.bucket_count = 16;
  options.file_count = 16;
  const Geometry geometry = GeometryFrom(options);
  const uint64_t asked = 20000;
  const std::vector<uint64_t> counts = ResidentCounts(geometry, GetParam(), asked);
  ASSERT_EQ(counts.size(), 16u);
  const uint64_t group = geometry.keys_per_group();
  std::set<uint64_t> keys;
  uint64_t neighbours = 0;
  for (uint32_t bucket = 0; bucket < 16; ++bucket) {
    EXPECT_EQ(counts[bucket] % group, 0u);
    for (uint64_t slot = 0; slot < counts[bucket]; ++slot) {
      const uint64_t key = ResidentKey(geometry, GetParam(), bucket, slot, 1);
      EXPECT_EQ(geometry.BucketOf(key), bucket);
      keys.insert(key);
      const bool is_next =
          slot > 0 && key == ResidentKey(geometry, GetParam(), bucket, slot - 1, 1) + 1;
      neighbours += static_cast<uint64_t>(is_next);
    }
  }
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  EXPECT_EQ(keys.size(), total);
  EXPECT_LE(total, asked);
  EXPECT_GT(total + 16 * group, asked);
  // Of 64 clustered keys 63 follow a neighbour.
  const uint64_t expected = GetParam() == ResidentKeys::kUniform     ? 0
                            : GetParam() == ResidentKeys::kClustered ? total / 64 * 63
                                                                     : total - 1;
  EXPECT_EQ(neighbours, expected);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ResidentKeysTest,
                         ::testing::Values(ResidentKeys::kUniform, ResidentKeys::kClustered,
                                           ResidentKeys::kSequential));

}  // namespace
}  // namespace engine_race::harness

// The orders of the children of the index bench, and the files of an index.
#include "harness/claims/index_child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/claims/index_billion.h"
#include "harness/claims/index_files.h"
#include "harness/claims/index_paged.h"
#include "harness/load/fill_keys.h"
#include "harness/load/index_keys.h"
#include "harness/load/store_basics.h"
#include "test/test_util.h"

namespace harness {
namespace {

using engine_race::Options;
using engine_race::Status;
using engine_race::Store;

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
    return {{"store_dir", store_dir_},
            {"memory_budget_bytes", uint64_t{64} << 20},
            {"first_key", first_key},
            {"more_keys", more_keys}};
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

  const engine_race::test::TempDir dir_;
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
  EXPECT_EQ(Main("open", OpenOf(keys_->PresentKey(1), {keys_->AbsentKey(2)}), &answer), 1);
  EXPECT_EQ(Main("open", OpenOf(keys_->AbsentKey(1), {}), &answer), 1);
}

TEST_F(IndexChildTest, AKilledWriterLeavesItsRecords) {
  const nlohmann::json order = {{"store_dir", store_dir_}, {"bucket_count", 16},
                                {"key_count", kChildKeys}, {"seed", kChildSeed},
                                {"write_count", 41},       {"first_new", 0},
                                {"writer_count", 2}};
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
    EXPECT_TRUE(store->Read(KeyBytesOf(keys_->New(i)), &value).ok()) << i;
  }
}

TEST_F(IndexChildTest, ABillionKeysAreCountedWhereTheyAreRight) {
  for (const char* kind : {kBillionReadsKind, kBillionSlotsKind}) {
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
    const std::string value(engine_race::kValueBytes, 'x');
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint64_t word = (i << 53) + (i << 40);
      ASSERT_TRUE(store->Write(KeyBytesOf(keys_->PresentKey(word)), value).ok());
    }
  }
  std::string answer;
  ASSERT_EQ(Main(kBillionReadsKind, BillionOf(kChildSeed), &answer), 0);
  EXPECT_EQ(nlohmann::json::parse(answer).at("right"), 800);
  ASSERT_EQ(Main(kBillionSlotsKind, BillionOf(kChildSeed), &answer), 0);
  EXPECT_LT(nlohmann::json::parse(answer).at("right"), 700);
}

TEST(IndexFilesTest, CountsTheDiskSpaceOfTheIndexAlone) {
  const engine_race::test::TempDir dir;
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

}  // namespace
}  // namespace harness

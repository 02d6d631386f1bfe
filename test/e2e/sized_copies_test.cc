// Checkpoints, backups and restores of stores with values of any size, beside reclaim.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

class SizedCopiesEndToEndTest : public testing::TestWithParam<uint32_t> {
 protected:
  using Versions = std::map<uint64_t, uint64_t>;

  std::unique_ptr<Store> Open(const std::string& name) const {
    Options options = TinyOptions();
    options.value_bytes = GetParam();
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(options, dir_.Join(name), &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return store;
  }
  // Fewer changes of large values.
  void Change(Store* store) {
    const uint64_t count = GetParam() > 20000 ? 60 : 1200;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key = (random_() % 4 << 62) + random_() % (count / 4) * 7919;
      if (random_() % 4 == 0) {
        ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
        held_.erase(key);
      } else {
        ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, ++version_, GetParam())).ok());
        held_[key] = version_;
      }
    }
  }
  void ExpectHolds(const std::string& name, const Versions& versions) const {
    VerifyReport report;
    EXPECT_TRUE(Store::Verify({}, dir_.Join(name), &report, {}).ok());
    const std::unique_ptr<Store> store = Open(name);
    ASSERT_NE(store, nullptr);
    auto expected = versions.begin();
    const Status walked = store->Range({}, {}, [&](std::string_view key, std::string_view value) {
      ASSERT_NE(expected, versions.end());
      EXPECT_EQ(key, KeyOf(expected->first));
      EXPECT_TRUE(value == ValueOf(expected->first, expected->second, GetParam()));
      ++expected;
    });
    EXPECT_TRUE(walked.ok()) << walked.ToString();
    EXPECT_EQ(expected, versions.end());
  }

  const TempDir dir_{FastParent()};
  std::mt19937_64 random_{7};
  uint64_t version_ = 0;
  Versions held_;
};

INSTANTIATE_TEST_SUITE_P(Sizes, SizedCopiesEndToEndTest,
                         testing::Values(8, 100, 1536, 16384, 1 << 20),
                         testing::PrintToStringParamName());

TEST_P(SizedCopiesEndToEndTest, AChainOfBackupsRestoresEachMoment) {
  auto store = Open("store");
  std::vector<Versions> moments;
  for (int number = 0; number < 3; ++number) {
    ASSERT_NO_FATAL_FAILURE(Change(store.get()));
    if (number == 1) {
      ASSERT_TRUE(store->Compact().ok());
    }
    BackupOptions how;
    if (number > 0) how.since = dir_.Join("backup" + std::to_string(number - 1));
    BackupReport report;
    const Status made = store->Backup(dir_.Join("backup" + std::to_string(number)), how, &report);
    ASSERT_TRUE(made.ok()) << made.ToString();
    EXPECT_EQ(report.record_count, held_.size());
    EXPECT_EQ((report.value_count < report.record_count), (number > 0));
    moments.push_back(held_);
  }
  store.reset();
  for (int number = 0; number < 3; ++number) {
    const std::string to = "restored" + std::to_string(number);
    const Status restored =
        Store::Restore({}, dir_.Join("backup" + std::to_string(number)), dir_.Join(to));
    ASSERT_TRUE(restored.ok()) << restored.ToString();
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(to, moments[static_cast<size_t>(number)]));
  }
}

TEST_P(SizedCopiesEndToEndTest, ACheckpointHoldsItsMoment) {
  auto store = Open("store");
  for (const bool reflink : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(Change(store.get()));
    CheckpointOptions how;
    how.reflink = reflink;
    const std::string name = reflink ? "shared" : "copied";
    const Status made = store->Checkpoint(dir_.Join(name), how);
    ASSERT_TRUE(made.ok()) << made.ToString();
    const Versions then = held_;
    ASSERT_NO_FATAL_FAILURE(Change(store.get()));
    ASSERT_TRUE(store->Compact().ok());
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(name, then));
  }
}

}  // namespace
}  // namespace engine_race::test

// The blocks of an index that the engine has written, found by each of the lab's ways.
#include "harness/lab/extent_blocks.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/index/index.h"
#include "harness/lab/flat_index.h"
#include "harness/load/fill_keys.h"
#include "test/test_util.h"

namespace engine_race::lab {
namespace {

constexpr uint64_t kSeed = 5;

class ExtentBlocksTest : public ::testing::Test {
 protected:
  using Find = std::function<Status(std::span<const uint64_t> keys, uint64_t* slot_sum)>;

  ExtentBlocksTest() {
    options_.bucket_count = 4;
    options_.file_count = 4;
    options_.build_thread_count = 2;
    options_.index_memory_bytes = 0;
    options_.index_idle_ms = 0;
  }

  void Make(uint64_t key_count) {
    ASSERT_TRUE(harness::FillKeyLogs(options_, dir_.path(), key_count, kSeed).ok());
    ASSERT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
    ASSERT_TRUE(Index::Build(log_.get(), options_, &index_).ok());
  }
  void MakeBlocks(uint64_t key_count) {
    ASSERT_NO_FATAL_FAILURE(Make(key_count));
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    const Status loaded = ExtentBlocks::Load(*log_, &blocks_);
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  }

  std::vector<std::pair<std::string, Find>> Ways() const {
    std::vector<std::pair<std::string, Find>> ways = {
        {"cache", [this](auto keys, auto* sum) { return blocks_->FindInCache(keys, sum); }},
        {"pointer", [this](auto keys, auto* sum) { return blocks_->FindByPointer(keys, sum); }},
        {"halving", [this](auto keys, auto* sum) { return blocks_->FindByHalving(keys, sum); }}};
    for (const NodeSearch search : {NodeSearch::kEarlyExit, NodeSearch::kBranchless,
                                    NodeSearch::kAvx2, NodeSearch::kAvx512}) {
      const NodeSearchFn kernel = NodeSearchKernel(search);
      if (kernel == nullptr) continue;
      ways.emplace_back(NodeSearchName(search), [this, kernel](auto keys, auto* sum) {
        return blocks_->FindByNodes(kernel, keys, sum);
      });
    }
    return ways;
  }

  // Every way finds each key's slot, as the engine does, and no key between them.
  void ExpectAll() const {
    const auto ways = Ways();
    for (uint32_t bucket = 0; bucket < options_.bucket_count; ++bucket) {
      for (uint64_t slot = 0; slot < log_->RecordCount(bucket); ++slot) {
        const uint64_t key = harness::FilledKey(log_->geometry(), bucket, slot, kSeed);
        ValueRef ref;
        ASSERT_TRUE(index_->Find(key, &ref).ok());
        const bool has_next = index_->Find(key + 1, &ref).ok();
        for (const auto& [name, find] : ways) {
          uint64_t sum = 0;
          ASSERT_TRUE(find({&key, 1}, &sum).ok()) << name << ", key " << key;
          ASSERT_EQ(sum, slot) << name << ", key " << key;
          if (has_next) continue;
          const uint64_t absent = key + 1;
          ASSERT_EQ(find({&absent, 1}, &sum).code(), Code::kNotFound) << name;
        }
      }
    }
    for (const uint64_t edge : {uint64_t{0}, ~uint64_t{0}}) {
      ValueRef ref;
      ASSERT_EQ(index_->Find(edge, &ref).code(), Code::kNotFound);
      for (const auto& [name, find] : ways) {
        uint64_t sum = 0;
        EXPECT_EQ(find({&edge, 1}, &sum).code(), Code::kNotFound) << name;
      }
    }
  }

  test::TempDir dir_{test::FastParent()};
  Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<ExtentBlocks> blocks_;
};

TEST_F(ExtentBlocksTest, EveryWayFindsTheEnginesRecords) {
  ASSERT_NO_FATAL_FAILURE(MakeBlocks(30000));
  EXPECT_GT(blocks_->block_count(), 30000u / 255);
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
}

TEST_F(ExtentBlocksTest, BucketsOfSeveralExtents) {
  options_.bucket_count = 1;
  options_.file_count = 1;
  ASSERT_NO_FATAL_FAILURE(MakeBlocks(300000));
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
}

TEST_F(ExtentBlocksTest, BucketsWithoutExtentsAndBlocksOfOneRecord) {
  ASSERT_NO_FATAL_FAILURE(MakeBlocks(2));
  ASSERT_NO_FATAL_FAILURE(ExpectAll());
}

TEST_F(ExtentBlocksTest, SumsOfManyKeysAreThoseOfFlatArrays) {
  ASSERT_TRUE(harness::FillKeyLogs(options_, dir_.path(), 30000, kSeed).ok());
  ASSERT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
  std::unique_ptr<FlatIndex> flat;
  ASSERT_TRUE(MakeFlatIndex(log_.get(), &flat).ok());
  ASSERT_TRUE(Index::Build(log_.get(), options_, &index_).ok());
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  ASSERT_TRUE(ExtentBlocks::Load(*log_, &blocks_).ok());
  std::vector<uint64_t> keys;
  uint64_t slots = 0;
  for (uint64_t slot = 0; slot < FlatIndex::kBatchKeys * 5 / 2; ++slot) {
    keys.push_back(harness::FilledKey(log_->geometry(), 2, slot, kSeed));
    slots += slot;
  }
  auto ways = Ways();
  ways.emplace_back("flat", [&](auto k, auto* sum) { return FindEach(*flat, k, sum); });
  ways.emplace_back("flat, batch", [&](auto k, auto* sum) { return FindTogether(*flat, k, sum); });
  for (const auto& [name, find] : ways) {
    uint64_t sum = 0;
    ASSERT_TRUE(find(keys, &sum).ok()) << name;
    EXPECT_EQ(sum, slots) << name;
  }
}

TEST_F(ExtentBlocksTest, NothingIsLoadedWithoutARoot) {
  ASSERT_NO_FATAL_FAILURE(Make(1000));
  EXPECT_EQ(ExtentBlocks::Load(*log_, &blocks_).code(), Code::kNotFound);
}

}  // namespace
}  // namespace engine_race::lab

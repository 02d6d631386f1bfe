// Hot values and blocks of the index in stores of other sizes of values: what they keep, and the
// memory that they divide.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

class SizedHotValuesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  SizedHotValuesTest() {
    options_.value_bytes = GetParam();
    options_.bucket_count = options_.file_count = 4;
    options_.value_group_bytes = 4096;
    options_.memory_budget_bytes = 96 * kMiB;
    options_.worker_count = 1;
    options_.index_idle_ms = 0;
    options_.index_memory_bytes = 0;
    Open();
  }
  void Open() {
    store_.reset();
    const Status opened = Store::Open(options_, dir_.path(), &store_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  uint32_t value_bytes() const { return GetParam(); }
  // About 32 MiB, or so many that blocks of the index come and go.
  uint64_t record_count() const {
    return std::min<uint64_t>(32 * kMiB / value_bytes(), uint64_t{20000});
  }
  void Fill() {
    for (uint64_t i = 0; i < record_count(); ++i) {
      const uint64_t key = NthKey(i);
      ASSERT_TRUE(store_->Write(KeyOf(key), ValueOf(key, 1, value_bytes())).ok());
    }
  }
  void Read(uint64_t begin, uint64_t end) {
    std::string value;
    for (uint64_t i = begin; i < end; ++i) {
      const Status read = store_->Read(KeyOf(NthKey(i)), &value);
      ASSERT_TRUE(read.ok()) << read.ToString();
      ASSERT_TRUE(value == ValueOf(NthKey(i), 1, value_bytes())) << i;
      if (i % 64 == 0) ExpectWithinBudget();
    }
  }
  void ReadMany() {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < record_count(); ++i) keys.push_back(NthKey(i));
    std::string rows(keys.size() * value_bytes(), '!');
    std::vector<Code> codes(keys.size());
    ASSERT_TRUE(store_->MultiReadInto(keys, rows.data(), codes).ok());
    for (uint64_t i = 0; i < record_count(); ++i) {
      ASSERT_EQ(codes[i], Code::kOk);
      const std::string expected = ValueOf(keys[i], 1, value_bytes());
      ASSERT_TRUE(rows.compare(i * value_bytes(), value_bytes(), expected) == 0) << i;
    }
  }
  void ExpectWithinBudget() {
    const StoreStats stats = store_->Stats();
    EXPECT_LE(stats.frame_memory_bytes, stats.frame_limit_bytes);
    EXPECT_LE(stats.frame_value_bytes + stats.frame_block_bytes, stats.frame_memory_bytes);
    EXPECT_LE(stats.log_memory_bytes + stats.index_memory_bytes + stats.range_memory_bytes +
                  stats.task_memory_bytes + stats.iterator_memory_bytes + stats.frame_memory_bytes,
              stats.memory_budget_bytes);
  }

  TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<Store> store_;
};

TEST_P(SizedHotValuesTest, ValuesAndBlocksAreFoundInFrames) {
  Fill();
  ASSERT_NO_FATAL_FAILURE(Open());
  Read(0, record_count());
  Read(0, 10);
  const StoreStats before = store_->Stats();
  Read(0, 10);
  const StoreStats after = store_->Stats();
  EXPECT_EQ(after.frame_hit_count - before.frame_hit_count, 10u);
  EXPECT_GT(after.frame_value_bytes, 0u);
  EXPECT_GT(after.frame_block_bytes, 0u);
  EXPECT_GT(after.block_hit_count, 0u);
  ReadMany();
  ExpectWithinBudget();
  uint64_t visited_count = 0;
  const auto visit = [&](std::string_view, std::string_view value) {
    EXPECT_EQ(value.size(), value_bytes());
    ++visited_count;
  };
  EXPECT_TRUE(store_->Range("", "", visit).ok());
  EXPECT_EQ(visited_count, record_count());
  ExpectWithinBudget();
}

TEST_P(SizedHotValuesTest, WithoutMemoryForValuesBlocksAreStillInFrames) {
  options_.hot_value_bytes = 0;
  ASSERT_NO_FATAL_FAILURE(Open());
  Fill();
  ASSERT_NO_FATAL_FAILURE(Open());
  Read(0, record_count());
  ReadMany();
  const StoreStats stats = store_->Stats();
  EXPECT_EQ(stats.frame_hit_count, 0u);
  EXPECT_EQ(stats.frame_value_bytes, 0u);
  EXPECT_GT(stats.block_hit_count, 0u);
  ExpectWithinBudget();
}

TEST_P(SizedHotValuesTest, ValuesTakeNoMoreThanTheirMemory) {
  options_.hot_value_bytes = 8 * kMiB;
  ASSERT_NO_FATAL_FAILURE(Open());
  Fill();
  for (int i = 0; i < 3; ++i) Read(0, record_count());
  const StoreStats stats = store_->Stats();
  EXPECT_GT(stats.frame_value_bytes, 0u);
  EXPECT_LE(stats.frame_value_bytes, 8 * kMiB);
  ExpectWithinBudget();
}

INSTANTIATE_TEST_SUITE_P(Sizes, SizedHotValuesTest, ::testing::ValuesIn(kValueSizes));

}  // namespace
}  // namespace engine_race::test

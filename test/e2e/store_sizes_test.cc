// Stores by the size of their values: what their calls take, give and refuse.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kKeys = 50;

Options SizedOptions(uint32_t value_bytes) {
  Options options = TinyOptions();
  options.value_bytes = value_bytes;
  return options;
}

class StoreSizesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    store_ = OpenStore(dir_.path(), SizedOptions(size()));
    ASSERT_NE(store_, nullptr);
  }

  static uint32_t size() { return GetParam(); }
  static std::string Value(uint64_t key) { return ValueOf(key, 1, size()); }

  const TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreSizesTest, TakesValuesOfItsSizeAlone) {
  EXPECT_EQ(store_->value_bytes(), size());
  for (const uint32_t other : {0U, size() - 1, size() + 1}) {
    const Status refused = store_->Write(KeyOf(1), std::string(other, 'v'));
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_EQ(refused.message(),
              "a value has " + std::to_string(size()) + " bytes, not " + std::to_string(other));
  }
  EXPECT_EQ(store_->Stats().write_count, 0U);
  ASSERT_TRUE(store_->Write(KeyOf(1), Value(1)).ok());
  const StoreStats stats = store_->Stats();
  EXPECT_EQ(stats.value_bytes, size());
  EXPECT_EQ(stats.written_value_bytes(), size());
}

TEST_P(StoreSizesTest, TakesBatchesOfItsSizeAlone) {
  const uint32_t other_size = size() == 512 ? 513 : 512;
  WriteBatch other(other_size);
  ASSERT_TRUE(other.Put(KeyOf(1), std::string(other_size, 'v')).ok());
  const Status refused = store_->Write(other);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find(std::to_string(other_size)), std::string::npos);
  EXPECT_NE(refused.message().find(std::to_string(size())), std::string::npos);
  EXPECT_EQ(store_->Stats().record_count, 0U);
  WriteBatch batch(size());
  for (uint64_t key = 0; key < kKeys; ++key) ASSERT_TRUE(batch.Put(KeyOf(key), Value(key)).ok());
  ASSERT_TRUE(store_->Write(batch).ok());
  std::string value;
  for (uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(store_->Read(KeyOf(key), &value).ok());
    ASSERT_EQ(value, Value(key)) << key;
  }
}

TEST_P(StoreSizesTest, ReadsTouchNoByteBesideTheirValues) {
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(store_->Write(KeyOf(key), Value(key)).ok());
    keys.push_back(key);
  }
  keys.push_back(kKeys);  // is not there
  std::string rows((keys.size() + 2) * size(), kUntouched);
  std::vector<Code> codes(keys.size());
  ASSERT_TRUE(store_->MultiReadInto(keys, rows.data() + size(), codes).ok());
  const std::string untouched(size(), kUntouched);
  const auto row = [&](size_t i) { return std::string_view(rows).substr(i * size(), size()); };
  EXPECT_EQ(row(0), untouched);
  for (uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_EQ(codes[key], Code::kOk);
    ASSERT_EQ(row(key + 1), Value(key)) << key;
  }
  EXPECT_EQ(codes[kKeys], Code::kNotFound);
  EXPECT_EQ(row(kKeys + 1), untouched);
  EXPECT_EQ(row(kKeys + 2), untouched);
  ASSERT_TRUE(store_->ReadInto(3, rows.data()).ok());
  EXPECT_EQ(row(0), Value(3));
  EXPECT_EQ(row(1), Value(0));
  EXPECT_EQ(store_->Stats().read_value_bytes(), (kKeys + 1) * size());
}

TEST_P(StoreSizesTest, ReadsInPieces) {
  // Two pieces.
  constexpr uint64_t kMany = 5000;
  if (size() > 4096) return;
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < kMany; ++i) keys.push_back(i % kKeys);
  for (uint64_t key = 0; key < kKeys; ++key)
    ASSERT_TRUE(store_->Write(KeyOf(key), Value(key)).ok());
  std::string rows(kMany * size(), kUntouched);
  std::vector<Code> codes(kMany);
  uint64_t told_count = 0;
  const auto on_progress = [&](uint64_t, uint64_t) { return ++told_count > 0; };
  ASSERT_TRUE(store_->MultiReadInto(keys, rows.data(), codes, on_progress).ok());
  EXPECT_EQ(told_count, 2U);
  for (uint64_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(std::string_view(rows).substr(i * size(), size()), Value(i % kKeys)) << i;
  }
}

TEST_P(StoreSizesTest, IsReopenedWithItsSizeOrWithNone) {
  ASSERT_TRUE(store_->Write(KeyOf(5), Value(5)).ok());
  for (const uint32_t same : {size(), 0U}) {
    store_ = nullptr;
    store_ = OpenStore(dir_.path(), SizedOptions(same));
    ASSERT_NE(store_, nullptr);
    EXPECT_EQ(store_->value_bytes(), size());
    std::string value;
    ASSERT_TRUE(store_->Read(KeyOf(5), &value).ok());
    EXPECT_EQ(value, Value(5));
  }
  store_ = nullptr;
  const Status refused = Store::Open(SizedOptions(size() == 512 ? 513 : 512), dir_.path(), &store_);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find(std::to_string(size())), std::string::npos);
}

TEST_P(StoreSizesTest, IsVerifiedAndCopiedWithAnyOption) {
  ASSERT_TRUE(store_->Write(KeyOf(5), Value(5)).ok());
  store_ = nullptr;
  VerifyReport report;
  const Options options = SizedOptions(size() == 512 ? 513 : 512);
  ASSERT_TRUE(Store::Verify(options, dir_.path(), &report, {}).ok());
  EXPECT_EQ(report.record_count, 1U);
  const TempDir copy;
  const std::string to = copy.path() + "/copy";
  ASSERT_TRUE(Store::Copy(options, dir_.path(), to, &report, {}).ok());
  store_ = OpenStore(to, SizedOptions(0));
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(store_->value_bytes(), size());
  std::string value;
  ASSERT_TRUE(store_->Read(KeyOf(5), &value).ok());
  EXPECT_EQ(value, Value(5));
}

INSTANTIATE_TEST_SUITE_P(Sizes, StoreSizesTest, ::testing::ValuesIn(kValueSizes),
                         [](const auto& tested) { return std::to_string(tested.param); });

}  // namespace
}  // namespace engine_race::test

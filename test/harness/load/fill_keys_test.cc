#include "harness/load/fill_keys.h"

#include <gtest/gtest.h>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/mix.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

TEST(FillKeysTest, APartOfTheKeysIsRefused) {
  const test::TempDir dir;
  Options options;
  options.bucket_count = 16;
  options.file_count = 4;
  options.bucket_capacity_records = 1 << 17;
  options.key_range = KeyRange{100, 1'000'000};
  EXPECT_EQ(FillKeyLogs(options, dir.path(), 100, 1).code(), Code::kInvalidArgument);
  options.key_range = KeyRange();
  EXPECT_TRUE(FillKeyLogs(options, dir.path(), 100, 1).ok());
}

// Values above 16 KiB leave fewer buckets than the options ask for.
TEST(FillKeysTest, FillsStoresOfOtherSizes) {
  for (const uint32_t value_bytes : {8, 100, 1536, 262144}) {
    const test::TempDir dir;
    Options options;
    options.value_bytes = value_bytes;
    constexpr uint64_t kKeys = 20000;
    const Status filled = FillKeyLogs(options, dir.path(), kKeys, 1);
    ASSERT_TRUE(filled.ok()) << value_bytes << filled.ToString();
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, dir.path(), &store).ok());
    const IndexKeys keys(options, kKeys, 1);
    std::string value;
    for (uint64_t word = 0; word < 50; ++word) {
      ASSERT_TRUE(store->Read(KeyBytes(keys.PresentKey(Mix64(word))).view(), &value).ok());
      EXPECT_EQ(value, std::string(value_bytes, '\0'));
    }
  }
}

}  // namespace
}  // namespace engine_race::harness

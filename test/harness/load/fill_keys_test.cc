#include "harness/load/fill_keys.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
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

constexpr uint64_t kKeys = 5000;
constexpr uint64_t kSeed = 3;

class IndexKeysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.bucket_count = 16;
    options_.file_count = 4;
    options_.bucket_capacity_records = 1 << 14;
    store_dir_ = dir_.path() + "/store";
    keys_ = std::make_unique<IndexKeys>(options_, kKeys, kSeed);
    ASSERT_TRUE(FillKeyLogs(options_, store_dir_, kKeys, kSeed).ok());
  }

  const test::TempDir dir_;
  std::string store_dir_;
  Options options_;
  std::unique_ptr<IndexKeys> keys_;
};

TEST_F(IndexKeysTest, PlacesAreThoseOfTheStore) {
  std::unique_ptr<BucketLog> log;
  std::unique_ptr<Index> index;
  ASSERT_TRUE(BucketLog::Open(options_, store_dir_, &log).ok());
  ASSERT_TRUE(Index::Build(log.get(), options_, &index).ok());
  std::set<uint64_t> buckets;
  for (uint64_t i = 0; i < 500; ++i) {
    const IndexKeys::Place place = keys_->Present(Mix64(i));
    ValueRef ref;
    ASSERT_TRUE(index->Find(place.key, &ref).ok()) << i;
    EXPECT_EQ(ref.slot(), place.slot);
    EXPECT_EQ(log->geometry().BucketOf(place.key), place.bucket);
    buckets.insert(place.bucket);
    EXPECT_EQ(index->Find(keys_->AbsentKey(Mix64(i)), &ref).code(), Code::kNotFound) << i;
    EXPECT_EQ(index->Find(keys_->New(i), &ref).code(), Code::kNotFound) << i;
  }
  EXPECT_EQ(buckets.size(), options_.bucket_count);
}

TEST_F(IndexKeysTest, TheFirstAndTheLastKeyCanBeDrawn) {
  EXPECT_EQ(keys_->Present(0).slot, 0u);
  EXPECT_EQ(keys_->Present(0).bucket, 0u);
  const IndexKeys::Place last = keys_->Present(~uint64_t{0});
  EXPECT_EQ(last.bucket, options_.bucket_count - 1);
  EXPECT_EQ(last.slot, FilledCounts(options_.bucket_count, kKeys, kSeed).back() - 1);
}

TEST_F(IndexKeysTest, EntriesAreReadInOrderOfSlots) {
  std::unique_ptr<BucketLog> log;
  ASSERT_TRUE(BucketLog::Open(options_, store_dir_, &log).ok());
  uint64_t count = 0;
  std::vector<format::KeyEntry> entries;
  for (uint32_t bucket = 0; bucket < options_.bucket_count; ++bucket) {
    ASSERT_TRUE(ReadEntries(log.get(), bucket, &entries).ok());
    count += entries.size();
    for (const uint64_t slot : {uint64_t{0}, entries.size() - 1}) {
      EXPECT_EQ(entries[slot].key, FilledKey(log->geometry(), bucket, slot, kSeed)) << bucket;
    }
  }
  EXPECT_EQ(count, kKeys);
}

}  // namespace
}  // namespace engine_race::harness

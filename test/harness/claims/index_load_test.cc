#include "harness/claims/index_load.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "harness/load/fill_keys.h"
#include "harness/load/index_keys.h"
#include "harness/load/store_basics.h"
#include "test/test_util.h"

namespace harness {
namespace {

using engine_race::Code;
using engine_race::Options;
using engine_race::Store;

constexpr uint64_t kLoadKeys = 5000;
constexpr uint64_t kLoadSeed = 3;

TEST(IndexLoadTest, ALoadReplacesAndAddsHalfEach) {
  const engine_race::test::TempDir dir;
  const std::string store_dir = dir.path() + "/store";
  Options options;
  options.bucket_count = 16;
  options.file_count = 4;
  options.bucket_capacity_records = 1 << 14;
  const IndexKeys keys(options, kLoadKeys, kLoadSeed);
  ASSERT_TRUE(FillKeyLogs(options, store_dir, kLoadKeys, kLoadSeed).ok());
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, store_dir, &store).ok());
  IndexLoad load;
  load.writer_count = 3;
  load.reader_count = 2;
  load.write_count = 301;
  load.first_new = 7;
  IndexLoadResult result;
  ASSERT_TRUE(RunIndexLoad(store.get(), keys, load, &result).ok());
  EXPECT_EQ(result.write_latency.count(), load.write_count);
  EXPECT_EQ(store->Stats().record_count, kLoadKeys + load.write_count);
  std::string value;
  for (uint64_t i = 0; i < load.new_key_count(); ++i) {
    EXPECT_TRUE(store->Read(KeyBytesOf(keys.New(load.first_new + i)), &value).ok()) << i;
  }
  for (const uint64_t number : {load.first_new - 1, load.first_new + load.new_key_count()}) {
    EXPECT_EQ(store->Read(KeyBytesOf(keys.New(number)), &value).code(), Code::kNotFound);
  }
}

}  // namespace
}  // namespace harness

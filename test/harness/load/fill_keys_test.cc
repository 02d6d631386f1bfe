#include "harness/load/fill_keys.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace engine_race::harness

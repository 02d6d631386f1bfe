#include "harness/load/fill_keys.h"

#include <gtest/gtest.h>

#include "test/test_util.h"

namespace harness {
namespace {

TEST(FillKeysTest, APartOfTheKeysIsRefused) {
  const engine_race::test::TempDir dir;
  engine_race::Options options;
  options.bucket_count = 16;
  options.file_count = 4;
  options.bucket_capacity_records = 1 << 17;
  options.key_range = engine_race::KeyRange{100, 1'000'000};
  EXPECT_EQ(FillKeyLogs(options, dir.path(), 100, 1).code(), engine_race::Code::kInvalidArgument);
  options.key_range = engine_race::KeyRange();
  EXPECT_TRUE(FillKeyLogs(options, dir.path(), 100, 1).ok());
}

}  // namespace
}  // namespace harness

#include "harness/claims/index_bench.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "engine_race/base/options.h"

namespace engine_race::harness {
namespace {

class ResidentKeysTest : public ::testing::TestWithParam<ResidentKeys> {};

TEST_P(ResidentKeysTest, DistinctKeysFillTheirBuckets) {
  Options options;
  options.bucket_count = 16;
  options.file_count = 16;
  const Geometry geometry = GeometryFrom(options);
  const uint64_t asked = 20000;
  const std::vector<uint64_t> counts = ResidentCounts(geometry, GetParam(), asked);
  ASSERT_EQ(counts.size(), 16u);
  const uint64_t group = geometry.keys_per_group();
  std::set<uint64_t> keys;
  uint64_t neighbours = 0;
  for (uint32_t bucket = 0; bucket < 16; ++bucket) {
    EXPECT_EQ(counts[bucket] % group, 0u);
    for (uint64_t slot = 0; slot < counts[bucket]; ++slot) {
      const uint64_t key = ResidentKey(geometry, GetParam(), bucket, slot, 1);
      EXPECT_EQ(geometry.BucketOf(key), bucket);
      keys.insert(key);
      const bool is_next =
          slot > 0 && key == ResidentKey(geometry, GetParam(), bucket, slot - 1, 1) + 1;
      neighbours += static_cast<uint64_t>(is_next);
    }
  }
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  EXPECT_EQ(keys.size(), total);
  EXPECT_LE(total, asked);
  EXPECT_GT(total + 16 * group, asked);
  // Of 64 clustered keys 63 follow a neighbour.
  const uint64_t expected = GetParam() == ResidentKeys::kUniform     ? 0
                            : GetParam() == ResidentKeys::kClustered ? total / 64 * 63
                                                                     : total - 1;
  EXPECT_EQ(neighbours, expected);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ResidentKeysTest,
                         ::testing::Values(ResidentKeys::kUniform, ResidentKeys::kClustered,
                                           ResidentKeys::kSequential));

}  // namespace
}  // namespace engine_race::harness

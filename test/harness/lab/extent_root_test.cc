#include "harness/lab/table_file.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "test/harness/lab/table_test_util.h"

namespace engine_race::test {
namespace {

using lab::ExtentRoot;

TEST(ExtentRootTest, FindsTheFirstExtentThatEndsAtOrAboveTheKey) {
  std::mt19937_64 random(1);
  for (const uint32_t key_bytes : {8u, 16u, 32u}) {
    for (const KeyKind kind : kKeyKinds) {
      for (const size_t count : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 100, 257}) {
        SCOPED_TRACE(testing::Message()
                     << key_bytes << ", kind " << static_cast<int>(kind) << ", " << count);
        const Records lasts = RandomRecords(kind, {key_bytes, 8}, count, &random);
        std::vector<char> joined;
        for (const auto& [key, payload] : lasts) {
          joined.insert(joined.end(), key.begin(), key.end());
        }
        ExtentRoot root;
        root.Build(joined, key_bytes);
        ASSERT_EQ(root.count(), lasts.size());
        for (const std::string& probe : Probes(lasts, key_bytes, 60, &random)) {
          ASSERT_EQ(root.Find(probe.data()),
                    std::distance(lasts.begin(), lasts.lower_bound(probe)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace engine_race::test

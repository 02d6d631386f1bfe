// A cut of a log is one moment of all buckets.
#include "engine_race/log/log_cut.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

TEST(LogCutTest, CountsWhatWasAppendedBefore) {
  const TempDir dir;
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  std::vector<uint64_t> counts;
  ASSERT_TRUE(log->TakeCut(&counts).ok());
  EXPECT_EQ(counts, std::vector<uint64_t>(4, 0));
  for (uint64_t key = 0; key < 10; ++key) {
    ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
  }
  ASSERT_TRUE(log->TakeCut(&counts).ok());
  EXPECT_EQ(counts, (std::vector<uint64_t>{10, 0, 0, 0}));
  ASSERT_TRUE(log->TakeCut(&counts).ok());
  EXPECT_EQ(counts, (std::vector<uint64_t>{10, 0, 0, 0}));
}

// One thread appends to the last bucket and then to the first. So no moment has more records in the
// first bucket. Counts that are read one after another would, sooner or later.
TEST(LogCutTest, IsOneMomentOfAllBuckets) {
  const TempDir dir(FastParent());
  // So many that the writer comes to both while a cut is taken.
  Options options = TinyLogOptions();
  options.bucket_count = 1024;
  const auto log = OpenLog(options, dir.path());
  const uint32_t bucket_count = log->geometry().bucket_count;
  const std::jthread writer([&](const std::stop_token& stop) {
    const std::string value = ValueOf(1, 1);
    for (uint64_t i = 0; !stop.stop_requested(); ++i) {
      for (const uint64_t bucket : {bucket_count - 1, uint32_t{0}}) {
        const uint64_t key = log->geometry().FirstKeyOf(static_cast<uint32_t>(bucket)) + i % 100;
        if (!log->Append(key, value.data()).ok()) return;
      }
    }
  });
  std::vector<uint64_t> counts;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t before = log->RecordCount(0);
    ASSERT_TRUE(log->TakeCut(&counts).ok());
    EXPECT_GE(counts[0], before);
    ASSERT_LE(counts[0], counts[bucket_count - 1]);
    ASSERT_LE(counts[bucket_count - 1], counts[0] + 1);
  }
}

}  // namespace
}  // namespace engine_race::test

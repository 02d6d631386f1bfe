// DirtyBuckets: which buckets wait to be cleaned.
#include "engine_race/reclaim/dirty_buckets.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "test/index/refused_memory.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

// Writers would help for ever, and nobody would clean the bucket.
TEST(DirtyBucketsTest, ABucketForWhichThereWasNoMemoryIsTakenLater) {
  constexpr uint64_t kMuchLater = 100000;
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyOptions(), dir.path());
  ASSERT_TRUE(log->Append(0, ValueOf(0, 1).data()).ok());
  DirtyBuckets dirty(TinyOptions(), *log, [] {});
  {
    const RefuseMemory refusal(0);
    dirty.OnKeyGroup(0, {}, kMuchLater);
    ASSERT_TRUE(refusal.refused());
  }
  EXPECT_FALSE(dirty.are_many());
  dirty.OnKeyGroup(0, {}, kMuchLater);
  EXPECT_TRUE(dirty.are_many());
  uint32_t bucket = 1;
  ASSERT_TRUE(dirty.Take(&bucket));
  EXPECT_EQ(bucket, 0u);
  EXPECT_FALSE(dirty.are_many());
}

}  // namespace
}  // namespace engine_race::test

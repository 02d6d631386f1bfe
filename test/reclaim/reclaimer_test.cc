// Reclaimer: what it does for writers that find no room.
#include "engine_race/reclaim/reclaimer.h"

#include <gtest/gtest.h>

#include <memory>

#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

// On a full disk a batch may fail before it comes to the bucket.
TEST(ReclaimerTest, NothingIsFreedForADamagedBucket) {
  const TempDir dir;
  uint64_t store_id = 0;
  {
    const std::unique_ptr<BucketLog> log = OpenLog(TinyOptions(), dir.path());
    ASSERT_TRUE(log->Append(0, ValueOf(0, 1).data()).ok());
    store_id = log->files().identity.store_id;
  }
  SetWord(dir.path(), store_id + 1, 0, format::WordKind::kRecords, 1);
  const std::unique_ptr<BucketLog> log = OpenLog(TinyOptions(), dir.path());
  ASSERT_TRUE(log->BucketDamaged(0));
  Reclaimer reclaimer(TinyOptions(), log.get());
  bool freed = true;
  EXPECT_TRUE(reclaimer.MakeSpace({{0, {1, 1}}}, /*disk_is_full=*/false, &freed).ok());
  EXPECT_FALSE(freed);
}

}  // namespace
}  // namespace engine_race::test

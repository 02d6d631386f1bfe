// Batches beside rows: a bucket begins to use slots again, and records move, while batches are
// written to it.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

#include "engine_race/log/batch_writer.h"
#include "engine_race/log/row_mover.h"
#include "engine_race/log/syncer.h"
#include "test/log/batch_test_util.h"

namespace engine_race::test {
namespace {

Status BeginRows(RowMover* mover, uint32_t bucket) {
  EXPECT_TRUE(mover->Claim(bucket));
  Status begun = mover->Begin(bucket);
  mover->Unclaim(bucket);
  return begun;
}

TEST(BatchRowTest, TheFirstBatchKeepsTheRows) {
  const TempDir dir;
  const Options options = TinyOptions();
  {
    const auto log = OpenLog(options, dir.path());
    ASSERT_TRUE(log->Append(KeyIn(0, 1), ValueOf(KeyIn(0, 1), 1).data()).ok());
    ASSERT_TRUE(BeginRows(&log->mover(), 0).ok());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 2)).ok());
    ASSERT_TRUE(BeginRows(&log->mover(), 1).ok());
  }
  const auto log = OpenLog(options, dir.path());
  EXPECT_TRUE(log->HasRows(0));
  EXPECT_TRUE(log->HasRows(1));
  EXPECT_FALSE(log->HasRows(2));
}

}  // namespace
}  // namespace engine_race::test

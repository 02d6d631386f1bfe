// Large batches on a full disk, and on one that fails.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "test/log/large_batch_test_util.h"

namespace engine_race::test {
namespace {

class LargeBatchSpaceTest : public LargeBatchTest {};

INSTANTIATE_TEST_SUITE_P(Modes, LargeBatchSpaceTest,
                         ::testing::Values(SyncMode::kNone, SyncMode::kGroup));

// At each of its first calls that need space.
TEST_P(LargeBatchSpaceTest, AFullDiskLeavesNothingOfIt) {
  int full_count = 0;
  for (int nth = 1;; ++nth) {
    const TempDir dir;
    const auto log = OpenLog(options_, dir.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    ASSERT_TRUE(log->Sync().ok());
    std::atomic<int> call_count{0};
    CallWatch full([&](SystemCall* call) {
      const bool takes_space =
          call->kind == CallKind::kPwrite ||
          (call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) == 0);
      const std::string path = PathOf(*call);
      // The reserve helps with what is not the batch's own.
      const bool is_own = path.find("/value_") != std::string::npos ||
                          path.find("/key_") != std::string::npos ||
                          path.ends_with(format::kBatchesName);
      if (!takes_space || !is_own || ++call_count < nth) return call->Proceed();
      errno = ENOSPC;
      return -1L;
    });
    Status written;
    {
      const ScopedHook scope(&full);
      written = log->Write(BatchOverAll(kTooMany, 2));
    }
    if (written.ok()) break;
    ++full_count;
    EXPECT_EQ(written.code(), Code::kFull) << nth << ": " << written.ToString();
    EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1)) << nth;
    ASSERT_TRUE(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 1).data()).ok());
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 3)).ok()) << nth;
    EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 3)) << nth;
  }
  // Its intent's space, values and entries of four buckets, the entries and the word of its intent.
  EXPECT_GE(full_count, 11);
}

// Space that it has taken is given back.
TEST_P(LargeBatchSpaceTest, ARefusedOneGivesItsSpaceBack) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  ASSERT_TRUE(log->Sync().ok());
  std::atomic<int> given_back_count{0};
  CallWatch full([&](SystemCall* call) {
    const std::string path = PathOf(*call);
    if (call->kind == CallKind::kPwrite && path.ends_with("value_01")) {
      errno = ENOSPC;
      return -1L;
    }
    if (call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) != 0 &&
        path.find("/value_") != std::string::npos) {
      ++given_back_count;
    }
    return call->Proceed();
  });
  {
    const ScopedHook scope(&full);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kFull);
  }
  EXPECT_EQ(given_back_count, 4);
  EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1));
}

TEST_P(LargeBatchSpaceTest, AFullRegionRefusesItBeforeAnyOfItIsWritten) {
  options_.bucket_capacity_records = 256;
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  std::atomic<int> write_count{0};
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kPwrite && PathOf(*call).find("/value_") != std::string::npos) {
      ++write_count;
    }
    return call->Proceed();
  });
  const ScopedHook scope(&watch);
  EXPECT_EQ(log->Write(BatchOverAll(254, 2)).code(), Code::kFull);
  EXPECT_EQ(write_count, 0);
  EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1));
}

// A failed device ends writing, and the batch is nowhere.
TEST_P(LargeBatchSpaceTest, AFailedWriteEndsWriting) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    FailingCalls broken(CallKind::kPwrite, "value_01", EIO);
    const ScopedHook scope(&broken);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kIOError);
    EXPECT_EQ(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 3).data()).code(), Code::kIOError);
    EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1));
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(3, 1));
}

// Nobody knows whether it is committed. The next opening finds it here.
TEST_P(LargeBatchSpaceTest, AFailedCommitEndsWriting) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    std::atomic<bool> committed{false};
    CallWatch watch([&](SystemCall* call) {
      committed = committed || CommitsLargeBatch(*call);
      if (committed && call->kind == CallKind::kFdatasync) {
        errno = EIO;
        return -1L;
      }
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kIOError);
    EXPECT_EQ(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 3).data()).code(), Code::kIOError);
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(kTooMany, 2));
}

}  // namespace
}  // namespace engine_race::test

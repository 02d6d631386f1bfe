// Large batches on a full disk, and what waits for their space.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "test/log/large_batch_test_util.h"

namespace engine_race::test {
namespace {

class LargeBatchSpaceTest : public LargeBatchTest {};

INSTANTIATE_TEST_SUITE_P(Modes, LargeBatchSpaceTest,
                         ::testing::Values(SyncMode::kNone, SyncMode::kGroup));

TEST_P(LargeBatchSpaceTest, AFullDiskLeavesNothingOfIt) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  {
    FailingCalls full(CallKind::kPwrite, format::kLargeBatchName, ENOSPC);
    const ScopedHook scope(&full);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kFull);
    EXPECT_EQ(full.count, 1);
  }
  EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1));
  ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 3)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 3));
}

// It asks for its space first.
TEST_P(LargeBatchSpaceTest, AFullDiskRefusesItBeforeAnyOfItIsWritten) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  int write_count = 0;
  CallWatch full([&](SystemCall* call) {
    if (!PathOf(*call).ends_with(format::kLargeBatchName)) return call->Proceed();
    if (call->kind == CallKind::kPwrite) ++write_count;
    if (call->kind != CallKind::kFallocate) return call->Proceed();
    errno = ENOSPC;
    return -1L;
  });
  {
    const ScopedHook scope(&full);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kFull);
  }
  EXPECT_EQ(write_count, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_.Join(format::kLargeBatchName)));
  ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 3)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 3));
}

TEST_P(LargeBatchSpaceTest, AFullRegionRefusesItBeforeAnyOfItIsWritten) {
  options_.bucket_capacity_records = 256;
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  int call_count = 0;
  CallWatch watch([&](SystemCall* call) {
    if (PathOf(*call).ends_with(format::kLargeBatchName)) ++call_count;
    return call->Proceed();
  });
  const ScopedHook scope(&watch);
  EXPECT_EQ(log->Write(BatchOverAll(254, 2)).code(), Code::kFull);
  EXPECT_EQ(call_count, 0);
  EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1));
}

// Once it is committed, a log without space would end all writes.
TEST_P(LargeBatchSpaceTest, LogsWithoutSpaceForItRefuseIt) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  // So a Sync before the commit writes nothing.
  ASSERT_TRUE(log->Sync().ok());
  int given_back_count = 0;
  CallWatch full([&](SystemCall* call) {
    const bool reserves =
        call->kind == CallKind::kFallocate && (call->flags & FALLOC_FL_PUNCH_HOLE) == 0;
    if ((reserves || call->kind == CallKind::kPwrite) && PathOf(*call).ends_with("value_01")) {
      errno = ENOSPC;
      return -1L;
    }
    if (call->kind == CallKind::kFallocate && !reserves && PathOf(*call).ends_with("value_00")) {
      ++given_back_count;
    }
    return call->Proceed();
  });
  {
    const ScopedHook scope(&full);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kFull);
  }
  // Of buckets 0 and 1.
  EXPECT_EQ(given_back_count, 2);
  EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1));
  ASSERT_TRUE(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 1).data()).ok());
  ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 3)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 3));
}

// Nothing of what it stages needs space any more.
TEST_P(LargeBatchSpaceTest, ADiskThatFillsUpOnceItIsCommittedTakesAllOfIt) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  bool written = false;
  CallWatch full([&](SystemCall* call) {
    const bool of_batch = PathOf(*call).ends_with(format::kLargeBatchName);
    // It takes its space before it is written, and gives the logs their share after that.
    if (call->kind == CallKind::kFdatasync && of_batch) written = true;
    if (call->kind != CallKind::kFallocate || call->flags != 0 || !written) return call->Proceed();
    errno = ENOSPC;
    return -1L;
  });
  {
    const ScopedHook scope(&full);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
  }
  EXPECT_TRUE(written);
  EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 2));
}

// Its file may take long to write. Its buckets take records meanwhile.
TEST_P(LargeBatchSpaceTest, WritersDoNotWaitForItsFile) {
  const auto log = OpenLog(options_, dir_.path());
  bool written = false;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kPwrite && !written &&
        PathOf(*call).ends_with(format::kLargeBatchName)) {
      std::thread([&] {
        written = log->Append(KeyIn(0, 1000), ValueOf(KeyIn(0, 1000), 1).data()).ok();
      }).join();
    }
    return call->Proceed();
  });
  const ScopedHook scope(&watch);
  ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
  EXPECT_TRUE(written);
  Content wanted = ContentOver(kTooMany, 2);
  wanted[KeyIn(0, 1000)] = 1;
  EXPECT_EQ(ContentOf(log.get()), wanted);
}

TEST_P(LargeBatchSpaceTest, ADiskThatIsFullForItsHeaderLeavesNothingOfIt) {
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
  bool refused = false;
  CallWatch full([&](SystemCall* call) {
    if (call->kind != CallKind::kPwrite || !PathOf(*call).ends_with(format::kLargeBatchName) ||
        call->offset != 0) {
      return call->Proceed();
    }
    refused = true;
    errno = ENOSPC;
    return -1L;
  });
  {
    const ScopedHook scope(&full);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kFull);
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(ContentOf(log.get()), ContentOver(3, 1));
  ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 3)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(kTooMany, 3));
}

// A full disk usually says that nothing was done. This time the next opening finds the batch.
TEST_P(LargeBatchSpaceTest, ADiskThatIsFullAfterItsCommitEndsWriting) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    bool committed = false;
    CallWatch full([&](SystemCall* call) {
      if (call->kind != CallKind::kPwrite) return call->Proceed();
      const std::string path = PathOf(*call);
      committed = committed || (path.ends_with(format::kLargeBatchName) && call->offset == 0);
      if (!committed || !path.ends_with("value_01")) return call->Proceed();
      errno = ENOSPC;
      return -1L;
    });
    const ScopedHook scope(&full);
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kIOError);
    EXPECT_EQ(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 3).data()).code(), Code::kIOError);
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(kTooMany, 2));
}

}  // namespace
}  // namespace engine_race::test

// Records staged with pwrite: a write that fails leaves the bucket as it was, and a group on its
// way takes no fresh memory.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "test/faults/staging_test_util.h"

namespace engine_race::test {
namespace {

// Fails the n-th pwrite to a staging file, counted from 1 when it is told to.
class FailNthStagingWrite : public SystemCallHook {
 public:
  explicit FailNthStagingWrite(int error) : error_(error) {}
  void Fail(uint64_t nth) { left_ = nth; }
  bool failed() const { return failed_; }

  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPwrite || left_ == 0) return call->Proceed();
    if (PathOfFd(call->fd).find("/staging_") == std::string::npos) return call->Proceed();
    if (--left_ > 0) return call->Proceed();
    failed_ = true;
    return Refuse(error_);
  }

 private:
  const int error_;
  uint64_t left_ = 0;
  bool failed_ = false;
};

// From the first record of a group to the write of a full one: whichever write fails, the append is
// refused and its record is not counted, or its group is written again.
TEST(WrittenStagingTest, AWriteThatFailsForWantOfSpaceChangesNothing) {
  const uint64_t group = OptionsOf(StagingMode::kWritten).value_group_bytes / kValueBytes;
  for (uint64_t nth = 1;; ++nth) {
    TempDir dir;
    auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
    ASSERT_NE(log, nullptr);
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key + 1 < group; ++key) {
      ASSERT_TRUE(AppendTo(log.get(), key).ok());
      keys.push_back(key);
    }
    FailNthStagingWrite fault(ENOSPC);
    fault.Fail(nth);
    {
      const ScopedHook scope(&fault);
      for (uint64_t key = 100; key < 103; ++key) {
        const uint64_t before = log->RecordCount(0);
        const Status status = AppendTo(log.get(), key);
        if (!status.ok()) {
          EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
        }
        if (status.ok()) keys.push_back(key);
        EXPECT_EQ(log->RecordCount(0), before + (status.ok() ? 1 : 0));
      }
    }
    for (uint64_t key = 200; key < 200 + 2 * group; ++key) {
      const Status status = AppendTo(log.get(), key);
      ASSERT_TRUE(status.ok()) << "there is space again: " << status.ToString();
      keys.push_back(key);
    }
    EXPECT_GE(log->LoggedValueWatermark(0), 2 * group);
    log.reset();
    ExpectReopens(dir.path(), keys);
    if (!fault.failed()) {
      EXPECT_GT(nth, 9u) << "hardly a write was met";
      return;
    }
  }
}

TEST(WrittenStagingTest, AnotherErrorEndsWritingAndLosesNothing) {
  for (uint64_t nth = 1; nth <= 5; ++nth) {
    TempDir dir;
    {
      const auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
      FailNthStagingWrite fault(EIO);
      fault.Fail(nth);
      const ScopedHook scope(&fault);
      EXPECT_EQ(AppendTo(log.get(), 1).code(), Code::kIOError);
      EXPECT_EQ(log->RecordCount(0), 0u);
      EXPECT_EQ(AppendTo(log.get(), 2).code(), Code::kIOError) << "writing has ended";
    }
    ExpectReopens(dir.path(), {});
    EXPECT_TRUE(AppendTo(OpenLog(OptionsOf(StagingMode::kWritten), dir.path()).get(), 3).ok());
    ExpectReopens(dir.path(), {3});
  }
}

// While the logged watermark cannot be published the group keeps its place, however many writes
// come.
TEST(WrittenStagingTest, APlaceIsKeptUntilTheWatermarkIsPublished) {
  TempDir dir;
  auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
  ASSERT_NE(log, nullptr);
  std::vector<uint64_t> keys;
  const off_t watermark_offset =
      static_cast<off_t>(format::WordKind::kLoggedValues) * sizeof(uint64_t);
  CallWatch hook([watermark_offset](SystemCall* call) {
    const bool met = IsOn(*call, CallKind::kPwrite, format::kStagingCountsName) &&
                     call->offset == watermark_offset;
    return met ? Refuse(ENOSPC) : call->Proceed();
  });
  {
    const ScopedHook scope(&hook);
    for (uint64_t key = 0; key < 100; ++key) {
      const Status status = AppendTo(log.get(), key);
      EXPECT_TRUE(status.ok() || status.code() == Code::kFull) << status.ToString();
      if (status.ok()) keys.push_back(key);
    }
    EXPECT_EQ(keys.size(), log->geometry().values_per_group()) << "the next group has not begun";
    EXPECT_EQ(log->LoggedValueWatermark(0), 0u);
    log.reset();
  }
  ExpectReopens(dir.path(), keys);
}

TEST(WrittenStagingTest, TheCountComesAfterTheBytes) {
  TempDir dir;
  const auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
  ASSERT_TRUE(AppendTo(log.get(), 1).ok());
  std::vector<std::string> order;
  CallWatch hook([&order](SystemCall* call) {
    if (call->kind == CallKind::kPwrite) {
      const std::string path = PathOfFd(call->fd);
      order.push_back(path.substr(path.rfind('/') + 1));
    }
    return call->Proceed();
  });
  const ScopedHook scope(&hook);
  ASSERT_TRUE(AppendTo(log.get(), 2).ok());
  EXPECT_EQ(order, (std::vector<std::string>{format::kStagingValuesName, format::kStagingKeysName,
                                             format::kStagingCountsName}));
}

// Fresh memory for each group would cost a page fault for each of its pages.
TEST(WrittenStagingTest, GroupsOnTheirWayUseTheSameMemoryAgain) {
  TempDir dir;
  const auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
  const uint64_t group = log->geometry().values_per_group();
  uint64_t slot = 0;
  for (; slot < group; ++slot) ASSERT_TRUE(AppendTo(log.get(), slot).ok());
  int mapping_count = 0;
  CallWatch hook([&mapping_count](SystemCall* call) {
    mapping_count += call->kind == CallKind::kMmap ? 1 : 0;
    return call->Proceed();
  });
  const ScopedHook scope(&hook);
  for (; slot < 4 * group; ++slot) ASSERT_TRUE(AppendTo(log.get(), slot).ok());
  EXPECT_EQ(log->LoggedValueWatermark(0), 4 * group);
  EXPECT_EQ(mapping_count, 0);
}

}  // namespace
}  // namespace engine_race::test

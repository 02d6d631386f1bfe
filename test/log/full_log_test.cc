// Logs that take no more: the limit on file sizes stands in for a full disk, because it can be
// lifted again.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

#include "test/log/log_parts_test_util.h"
#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

using test::OpenLog;
using test::ReadSlot;
using test::TinyLogOptions;
using test::ValueOf;

// Bucket 1 lies in the same files as bucket 0.
constexpr uint32_t kBucket = 1;
constexpr uint64_t kFirstKey = uint64_t{1} << 62;

class FullLogTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0); }
  void TearDown() override { Lift(); }

  void Limit(uint64_t bytes) {
    const struct rlimit limit = {bytes, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  // Bucket 0 gets the first segment of its value file, and no other fits.
  void LimitToOneSegment(BucketLog* log) {
    for (uint64_t key = 0; key < 4; ++key) {
      ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
    }
    Limit(log->geometry().segment_value_bytes());
  }
  void Lift() { ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0); }

  Code Append(BucketLog* log, uint64_t i) {
    return log->Append(kFirstKey + i, ValueOf(i, 1).data()).code();
  }
  void ExpectValues(const BucketLog& log, uint64_t count) {
    ASSERT_EQ(log.RecordCount(kBucket), count);
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(ReadSlot(log, kBucket, i), ValueOf(i, 1));
  }

  test::TempDir dir_;
  struct rlimit before_;
};

TEST_F(FullLogTest, TheGroupStaysStagedAndTheNextWriteTriesAgain) {
  const auto log = OpenLog(TinyLogOptions(), dir_.path());
  ASSERT_NO_FATAL_FAILURE(LimitToOneSegment(log.get()));
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(Append(log.get(), i), Code::kOk);
  EXPECT_EQ(Append(log.get(), 3), Code::kOk);
  EXPECT_EQ(Append(log.get(), 4), Code::kFull);
  EXPECT_EQ(log->LoggedValueWatermark(kBucket), 0u);
  ExpectValues(*log, 4);
  EXPECT_TRUE(log->Append(7, ValueOf(7, 1).data()).ok()) << "another bucket has room";
  Lift();
  EXPECT_EQ(Append(log.get(), 4), Code::kOk);
  EXPECT_EQ(log->LoggedValueWatermark(kBucket), 4u);
  ExpectValues(*log, 5);
}

// Only what is synced can be cleaned, and so make room for the others.
TEST_F(FullLogTest, ASyncSyncsTheBucketsThatThereIsRoomFor) {
  const auto log = OpenLog(TinyLogOptions(), dir_.path());
  ASSERT_NO_FATAL_FAILURE(LimitToOneSegment(log.get()));
  constexpr uint64_t kOtherKey = uint64_t{2} << 62;
  ASSERT_EQ(Append(log.get(), 0), Code::kOk);
  ASSERT_TRUE(log->Append(7, ValueOf(7, 1).data()).ok());
  ASSERT_TRUE(log->Append(kOtherKey, ValueOf(kOtherKey, 1).data()).ok());
  EXPECT_EQ(log->Sync().code(), Code::kFull);
  EXPECT_EQ(log->SyncedWatermark(0), 5u);
  EXPECT_EQ(log->SyncedWatermark(kBucket), 0u);
  EXPECT_EQ(log->SyncedWatermark(2), 1u);
  Lift();
  EXPECT_TRUE(log->Sync().ok());
  EXPECT_EQ(log->SyncedWatermark(kBucket), 1u);
}

// Buckets 2 and 3 are in files that are opened for their first group.
TEST_F(FullLogTest, ALackOfDescriptorsPasses) {
  const auto log = OpenLog(TinyLogOptions(), dir_.path());
  const auto append = [&](uint64_t i) {
    const uint64_t key = (uint64_t{3} << 62) + i;
    return log->Append(key, ValueOf(key, 1).data()).code();
  };
  test::FailingCalls failing(test::CallKind::kOpenAt, "/value_01", EMFILE);
  {
    const test::ScopedHook hook(&failing);
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(append(i), Code::kOk);
    EXPECT_EQ(append(4), Code::kOutOfMemory);
    EXPECT_EQ(log->Sync().code(), Code::kOutOfMemory);
  }
  EXPECT_GT(failing.count, 0);
  EXPECT_EQ(append(4), Code::kOk);
  EXPECT_TRUE(log->Sync().ok());
  EXPECT_EQ(log->SyncedWatermark(3), 5u);
}

TEST_F(FullLogTest, ReopenedWhileFullItStillReads) {
  {
    const auto log = OpenLog(TinyLogOptions(), dir_.path());
    ASSERT_NO_FATAL_FAILURE(LimitToOneSegment(log.get()));
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(Append(log.get(), i), Code::kOk);
    EXPECT_EQ(Append(log.get(), 4), Code::kFull);
  }
  int messages = 0;
  Options options = TinyLogOptions();
  options.log = [&messages](LogLevel, std::string_view) { ++messages; };
  {
    const auto log = OpenLog(options, dir_.path());
    EXPECT_GE(messages, 1);
    ExpectValues(*log, 4);
    EXPECT_EQ(Append(log.get(), 4), Code::kFull);
  }
  Lift();
  const auto log = OpenLog(TinyLogOptions(), dir_.path());
  EXPECT_EQ(log->LoggedValueWatermark(kBucket), 4u);
  ExpectValues(*log, 4);
  EXPECT_EQ(Append(log.get(), 4), Code::kOk);
}

TEST_F(FullLogTest, NoRoomForStagingIsAClearRefusal) {
  const auto log = OpenLog(TinyLogOptions(), dir_.path());
  Limit(1000);
  EXPECT_EQ(Append(log.get(), 0), Code::kFull);
  EXPECT_EQ(log->RecordCount(kBucket), 0u);
  Lift();
  EXPECT_EQ(Append(log.get(), 0), Code::kOk);
}

// Past the limit a pwrite is a SIGXFSZ, which ends the process.
TEST_F(FullLogTest, RecordsStagedWithPwriteAskForTheLimitFirst) {
  Options options = TinyLogOptions();
  options.staging_mode = StagingMode::kWritten;
  const auto log = OpenLog(options, dir_.path());
  ASSERT_EQ(Append(log.get(), 0), Code::kOk);
  // The limit is below the record's value, then below its entry, then below its counts.
  for (const uint64_t limit : {uint64_t{1} << 12, uint64_t{1000}, uint64_t{64}, uint64_t{0}}) {
    Limit(limit);
    EXPECT_EQ(Append(log.get(), 1), Code::kFull) << limit;
    EXPECT_EQ(log->RecordCount(kBucket), 1u);
  }
  Lift();
  EXPECT_EQ(Append(log.get(), 1), Code::kOk);
  ExpectValues(*log, 2);
}

TEST_F(FullLogTest, AStoreThatTheLimitForbidsIsNotMade) {
  Limit(kIoAlignment);
  std::unique_ptr<BucketLog> log;
  EXPECT_EQ(BucketLog::Open(TinyLogOptions(), dir_.path(), &log).code(), Code::kFull);
  Lift();
  EXPECT_TRUE(BucketLog::Open(TinyLogOptions(), dir_.path(), &log).ok());
}

}  // namespace
}  // namespace engine_race

#include "engine_race/log/follower.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "engine_race/log/manifest.h"
#include "test/log/follower_fixture.h"
#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

// A reader that has the new count must not find the old slots.
TEST_F(FollowerTest, ListenersAreDetachedBeforeTheBucketChanges) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  std::vector<uint32_t> reset;
  ASSERT_NO_FATAL_FAILURE(Append(5));
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_TRUE(reset.empty());
  EXPECT_EQ(listener_->append_count, 5u);
  const uint64_t reuse_count = follower_->ReuseCount(0);
  // Another opening may have recovered the store.
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(3));
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_EQ(reset, std::vector<uint32_t>{0});
  EXPECT_EQ(listener_->detach_count, 1u);
  EXPECT_EQ(listener_->reuse_count, reuse_count);
  EXPECT_EQ(listener_->record_count, 15u);
  EXPECT_NE(follower_->ReuseCount(0), reuse_count);
  EXPECT_EQ(follower_->RecordCount(0), 18u);
  EXPECT_FALSE(follower_->reader().IfAttached(0, [] { FAIL() << "the listener is detached"; }));
  follower_->reader().DetachListener(0);
}

// Another writer may have recovered the store meanwhile, and has left no name.
TEST_F(FollowerTest, WritersThatCameAndWentAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(3));
  writer_.reset();
  std::vector<uint32_t> reset;
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_EQ(listener_->detach_count, 1u);
  EXPECT_EQ(follower_->RecordCount(0), 13u);
  // Once is enough.
  ASSERT_NO_FATAL_FAILURE(Cut());
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_TRUE(reset.empty());
  EXPECT_EQ(listener_->detach_count, 1u);
  follower_->reader().DetachListener(0);
}

TEST_F(FollowerTest, ManyNewRecordsAreNotToldOneByOne) {
  options_.bucket_capacity_records = 16384;
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(1));
  std::vector<uint32_t> reset;
  ASSERT_NO_FATAL_FAILURE(Append(4096));
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_EQ(listener_->append_count, 4096u);
  EXPECT_EQ(listener_->detach_count, 0u);
  ASSERT_NO_FATAL_FAILURE(Append(4097));
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_EQ(listener_->append_count, 4096u);
  EXPECT_EQ(listener_->detach_count, 1u);
  EXPECT_EQ(follower_->RecordCount(0), 8194u);
}

// The counts of a bucket are damaged, and right again once another writer has opened the store.
TEST_F(FollowerTest, RepairedBucketsAreReadAgain) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(10));
  const std::string counts = dir_.Join(format::kStagingCountsName);
  format::BucketCounts line{};
  {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, counts, O_RDONLY, 0, &fd).ok());
    ASSERT_EQ(::pread(fd.get(), &line, sizeof(line), 0), static_cast<ssize_t>(sizeof(line)));
  }
  const format::BucketCounts zeros{};
  ASSERT_NO_FATAL_FAILURE(Overwrite(counts, &zeros, sizeof(zeros), 0));
  ASSERT_NO_FATAL_FAILURE(Follow());
  EXPECT_TRUE(follower_->BucketDamaged(0));
  EXPECT_FALSE(follower_->BucketDamaged(1));
  NullListener listener;
  BucketCut cut;
  EXPECT_EQ(follower_->reader().CutBucket(0, /*first_sequence=*/0, &listener, &cut).code(),
            Code::kCorruption);
  ASSERT_NO_FATAL_FAILURE(Overwrite(counts, &line, sizeof(line), 0));
  // Nobody has repaired the bucket yet.
  ASSERT_TRUE(Refresh().ok());
  EXPECT_TRUE(follower_->BucketDamaged(0));
  ASSERT_NO_FATAL_FAILURE(Overwrite(counts, &zeros, sizeof(zeros), 0));
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  EXPECT_TRUE(Refresh().ok()) << "its readers are told";
  EXPECT_TRUE(follower_->BucketDamaged(0));
  ASSERT_NO_FATAL_FAILURE(Overwrite(counts, &line, sizeof(line), 0));
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_TRUE(Refresh().ok());
  EXPECT_FALSE(follower_->BucketDamaged(0));
  EXPECT_EQ(RecordsOf(follower_.get(), 0).size(), 10u);
}

// The follower knows no state of a store whose writer has closed it. A bucket that has not changed
// since is not taken anew.
TEST_F(FollowerTest, AClosedStoreIsNotReadAgain) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(10));
  writer_.reset();
  ASSERT_NO_FATAL_FAILURE(Follow());
  listener_ = std::make_unique<DetachListener>(follower_.get());
  ASSERT_NO_FATAL_FAILURE(Cut());
  ASSERT_TRUE(Refresh().ok());
  EXPECT_TRUE(follower_->ConfirmDamage(0).ok()) << "the bucket is as the listener has cut it";
  EXPECT_EQ(listener_->detach_count, 0u);
  follower_->reader().DetachListener(0);
}

// Another writer opens the store while the follower opens it.
TEST_F(FollowerTest, AWriterThatComesMeanwhileIsAwaited) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(10));
  ChangedReads reads(format::kStagingCountsName, ComingWriter());
  {
    const ScopedHook hook(&reads);
    ASSERT_NO_FATAL_FAILURE(Follow());
  }
  listener_ = std::make_unique<DetachListener>(follower_.get());
  ASSERT_NO_FATAL_FAILURE(Cut());
  ASSERT_TRUE(Refresh().ok());
  EXPECT_EQ(listener_->detach_count, 0u) << "the opening has seen that writer";
  EXPECT_EQ(follower_->RecordCount(0), 13u);
  follower_->reader().DetachListener(0);
}

// And while a Refresh is under way: one Refresh takes over what both have written.
TEST_F(FollowerTest, AWriterThatComesBesideARefreshIsNoticed) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  ChangedReads reads(format::kStagingCountsName, ComingWriter());
  {
    const ScopedHook hook(&reads);
    ASSERT_TRUE(Refresh().ok());
  }
  EXPECT_EQ(listener_->detach_count, 1u);
  EXPECT_EQ(follower_->RecordCount(0), 13u);
}

// The process has another working directory by now.
TEST_F(FollowerTest, ARelativeNameStaysThatOfTheStore) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(10));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(std::filesystem::path(dir_.path()).parent_path());
  Options options;
  options.follow = options.read_only = true;
  options.value_bytes = 0;
  follower_ = OpenLog(options, std::filesystem::path(dir_.path()).filename());
  std::filesystem::current_path(before);
  ASSERT_NE(follower_, nullptr);
  const Status refreshed = Refresh();
  EXPECT_TRUE(refreshed.ok()) << refreshed.ToString();
}

// A shortage of descriptors says nothing about the store.
TEST_F(FollowerTest, ADirectoryThatCannotBeOpenedIsNotGone) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  {
    FailingCalls failing(CallKind::kOpenAt, dir_.path(), EMFILE);
    const ScopedHook hook(&failing);
    const Status refreshed = Refresh();
    EXPECT_EQ(refreshed.error(), EMFILE) << refreshed.ToString();
    EXPECT_EQ(failing.count, 1);
  }
  EXPECT_TRUE(Refresh().ok());
  follower_->reader().DetachListener(0);
}

// The text of a writer that was killed while it opened the store.
TEST_F(FollowerTest, AnInterruptedOpeningWantsARecovery) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  writer_.reset();
  const std::string text(128, ' ');
  ASSERT_NO_FATAL_FAILURE(Overwrite(dir_.Join(format::kLockName), text.data(), text.size(), 0));
  EXPECT_EQ(Refresh().code(), Code::kIncomplete);
  EXPECT_EQ(listener_->detach_count, 0u);
  follower_->reader().DetachListener(0);
  // An opening has found that the store needs none.
  ASSERT_NO_FATAL_FAILURE(Follow());
  EXPECT_TRUE(Refresh().ok());
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  EXPECT_TRUE(Refresh().ok());
  EXPECT_EQ(reset_, std::vector<uint32_t>());
  ASSERT_NO_FATAL_FAILURE(ExpectAll(10));
}

// The index of a follower has no memory for a record: it is to read the bucket anew.
TEST_F(FollowerTest, AListenerThatTakesNotAllIsDetached) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  ASSERT_NO_FATAL_FAILURE(Append(5));
  const uint64_t reuse_count = follower_->ReuseCount(0);
  listener_->refused_from = 2;
  EXPECT_EQ(Refresh().code(), Code::kOutOfMemory);
  EXPECT_EQ(listener_->append_count, 2u);
  EXPECT_EQ(listener_->detach_count, 1u);
  EXPECT_EQ(reset_, std::vector<uint32_t>{0});
  EXPECT_NE(follower_->ReuseCount(0), reuse_count);
  EXPECT_FALSE(follower_->reader().IfAttached(0, [] { FAIL() << "the listener is detached"; }));
  ASSERT_NO_FATAL_FAILURE(ExpectAll(15));
}

// What a build has found damaged is damage only if the bucket is as it was cut.
TEST_F(FollowerTest, DamageIsConfirmedOfTheBucketThatWasCut) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  EXPECT_TRUE(follower_->ConfirmDamage(0).ok());
  EXPECT_TRUE(follower_->ConfirmDamage(0).ok());
  ASSERT_NO_FATAL_FAILURE(Append(1));
  EXPECT_EQ(follower_->ConfirmDamage(0).code(), Code::kBusy);
  EXPECT_EQ(follower_->ConfirmDamage(0).code(), Code::kBusy);
  ASSERT_NO_FATAL_FAILURE(Cut());
  EXPECT_TRUE(follower_->ConfirmDamage(0).ok());
  follower_->reader().DetachListener(0);
}

}  // namespace
}  // namespace engine_race::test

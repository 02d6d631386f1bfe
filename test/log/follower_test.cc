#include "engine_race/log/follower.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

// Notes how far the bucket was when the log detached the listener from it.
class DetachListener : public AppendListener {
 public:
  explicit DetachListener(const BucketLog* log) : log_(*log) {}
  Status Prepare(uint32_t) override { return Status::Ok(); }
  void OnAppend(uint32_t, const KeyRecord&) noexcept override { ++append_count; }
  void OnDetach(uint32_t bucket) noexcept override {
    ++detach_count;
    reuse_count = log_.ReuseCount(bucket);
    record_count = log_.RecordCount(bucket);
  }
  uint64_t append_count = 0;
  uint64_t detach_count = 0;
  uint64_t reuse_count = 0;
  uint64_t record_count = 0;

 private:
  const BucketLog& log_;
};

class FollowerTest : public ::testing::Test {
 protected:
  void OpenWriter() {
    writer_.reset();
    writer_ = OpenLog(options_, dir_.path());
    ASSERT_NE(writer_, nullptr);
  }
  void Append(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(writer_->Append(next_key_, ValueOf(next_key_, 1).data()).ok());
      ++next_key_;
    }
  }
  void Follow() {
    Options options;
    options.follow = options.read_only = true;
    options.value_bytes = 0;
    follower_ = OpenLog(options, dir_.path());
    ASSERT_NE(follower_, nullptr);
  }
  // A store of `count` records, and a listener of the follower that has cut bucket 0.
  void FollowAndCut(uint64_t count) {
    ASSERT_NO_FATAL_FAILURE(OpenWriter());
    ASSERT_NO_FATAL_FAILURE(Append(count));
    ASSERT_NO_FATAL_FAILURE(Follow());
    listener_ = std::make_unique<DetachListener>(follower_.get());
    ASSERT_NO_FATAL_FAILURE(Cut());
  }
  void Cut() {
    BucketCut cut;
    ASSERT_TRUE(follower_->CutBucket(0, /*first_sequence=*/0, listener_.get(), &cut).ok());
  }

  const TempDir dir_;
  Options options_ = TinyLogOptions();
  uint64_t next_key_ = 0;  // all in bucket 0
  std::unique_ptr<BucketLog> writer_;
  std::unique_ptr<BucketLog> follower_;
  std::unique_ptr<DetachListener> listener_;
};

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
  EXPECT_FALSE(follower_->IfAttached(0, [] { FAIL() << "the listener is detached"; }));
  follower_->DetachListener(0);
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
  follower_->DetachListener(0);
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
  EXPECT_EQ(follower_->CutBucket(0, /*first_sequence=*/0, &listener, &cut).code(),
            Code::kCorruption);
  ASSERT_NO_FATAL_FAILURE(Overwrite(counts, &line, sizeof(line), 0));
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  std::vector<uint32_t> reset;
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_FALSE(follower_->BucketDamaged(0));
  EXPECT_EQ(RecordsOf(follower_.get(), 0).size(), 10u);
}

}  // namespace
}  // namespace engine_race::test

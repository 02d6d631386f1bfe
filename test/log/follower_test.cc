#include "engine_race/log/follower.h"

#include <gtest/gtest.h>

#include <memory>
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
    writer_ = OpenLog(TinyLogOptions(), dir_.path());
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

  const TempDir dir_;
  uint64_t next_key_ = 0;  // all in bucket 0
  std::unique_ptr<BucketLog> writer_;
  std::unique_ptr<BucketLog> follower_;
};

// A reader that has the new count must not find the old slots.
TEST_F(FollowerTest, ListenersAreDetachedBeforeTheBucketChanges) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(10));
  ASSERT_NO_FATAL_FAILURE(Follow());
  DetachListener listener(follower_.get());
  BucketCut cut;
  ASSERT_TRUE(follower_->CutBucket(0, /*first_sequence=*/0, &listener, &cut).ok());
  std::vector<uint32_t> reset;
  ASSERT_NO_FATAL_FAILURE(Append(5));
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_TRUE(reset.empty());
  EXPECT_EQ(listener.append_count, 5u);
  const uint64_t reuse_count = follower_->ReuseCount(0);
  // Another opening may have recovered the store.
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(3));
  ASSERT_TRUE(follower_->Refresh(&reset).ok());
  EXPECT_EQ(reset, std::vector<uint32_t>{0});
  EXPECT_EQ(listener.detach_count, 1u);
  EXPECT_EQ(listener.reuse_count, reuse_count);
  EXPECT_EQ(listener.record_count, 15u);
  EXPECT_NE(follower_->ReuseCount(0), reuse_count);
  EXPECT_EQ(follower_->RecordCount(0), 18u);
  EXPECT_FALSE(follower_->IfAttached(0, [] { FAIL() << "the listener is detached"; }));
  follower_->DetachListener(0);
}

}  // namespace
}  // namespace engine_race::test

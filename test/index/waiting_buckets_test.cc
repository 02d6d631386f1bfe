// Buckets that wait for the first call that needs them, behind the opening of an index.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/log/format.h"
#include "test/faults/system_calls.h"
#include "test/index/paged_index_fixture.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kRecords = 24000;

// Counts the reads of key entries, and fails them while it is told to.
class KeyReads : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPread) return call->Proceed();
    const std::string path = PathOfFd(call->fd);
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    if (name != format::kStagingKeysName && !name.starts_with("key_0")) return call->Proceed();
    ++count;
    if (!fails) return call->Proceed();
    errno = EIO;
    return -1;
  }
  std::atomic<uint64_t> count{0};
  std::atomic<bool> fails{false};
};

class WaitingBucketsTest : public PagedIndexFixture {
 protected:
  WaitingBucketsTest() : PagedIndexFixture(/*frame_count=*/64) {}

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Fill(kRecords));
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Close();
  }
  void OpenWaiting() {
    ASSERT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
    ASSERT_TRUE(
        l1::FrameCache::Create(l1::FrameCache::BytesFor(frame_count_), share_, &frames_).ok());
    const Status built = Index::Build(log_.get(), options_, &index_, frames_.get(), nullptr,
                                      Index::Opening::kMayWait);
    ASSERT_TRUE(built.ok()) << built.ToString();
  }
  Code Find(uint64_t key) const {
    ValueRef ref;
    return index_->Find(key, &ref).code();
  }
  // The first of the newest records in a bucket.
  uint64_t KeyIn(uint32_t bucket) const {
    return newest_.lower_bound(log_->geometry().FirstKeyOf(bucket))->first;
  }
};

TEST_F(WaitingBucketsTest, ALookupReadsItsOwnBucketOnly) {
  KeyReads reads;
  const ScopedHook hook(&reads);
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  ASSERT_TRUE(index_->is_waiting());
  EXPECT_EQ(reads.count, 0U);
  EXPECT_EQ(Find(KeyIn(3)), Code::kOk);
  const uint64_t of_one = reads.count;
  EXPECT_GT(of_one, 0U);
  EXPECT_EQ(Find(KeyIn(3) + 1), Code::kNotFound);
  EXPECT_EQ(reads.count, of_one) << "a bucket is read once";
  EXPECT_EQ(Find(KeyIn(5)), Code::kOk);
  EXPECT_LE(reads.count, 2 * of_one + 1);
  index_->RestoreRest();
  EXPECT_LE(reads.count, options_.bucket_count * (of_one + 1));
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  ASSERT_NO_FATAL_FAILURE(ExpectWalks());
  EXPECT_FALSE(messages_.Said("from their key logs"));
}

TEST_F(WaitingBucketsTest, RecordsThatComeMeanwhileAreFound) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(OpenWaiting());
    ASSERT_TRUE(index_->is_waiting());
    ASSERT_NO_FATAL_FAILURE(Churn(500, &random));
    EXPECT_EQ(Find(KeyIn(2)), Code::kOk);
    ASSERT_NO_FATAL_FAILURE(Churn(500, &random));
    std::thread rest([this] { index_->RestoreRest(); });
    ExpectFinds(7);
    rest.join();
    ASSERT_NO_FATAL_FAILURE(ExpectFinds());
    ASSERT_NO_FATAL_FAILURE(ExpectWalks());
    ASSERT_NO_FATAL_FAILURE(Churn(500, &random));
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Close();
  }
}

TEST_F(WaitingBucketsTest, WhereThereIsNoRootNothingWaits) {
  ASSERT_EQ(::unlink((dir_.path() + "/" + format::kIndexRootName).c_str()), 0);
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  EXPECT_FALSE(index_->is_waiting());
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

TEST_F(WaitingBucketsTest, ABucketThatIsNotCoveredAfterAllIsBuilt) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  {
    // The entry that the coverage is checked with cannot be read.
    KeyReads reads;
    const ScopedHook hook(&reads);
    reads.fails = true;
    EXPECT_EQ(Find(KeyIn(1)), Code::kIOError);
  }
  EXPECT_EQ(Find(KeyIn(1)), Code::kOk);
  index_->RestoreRest();
  EXPECT_TRUE(messages_.Said("does not cover 1 buckets"));
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
  ASSERT_NO_FATAL_FAILURE(ExpectWalks());
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

TEST_F(WaitingBucketsTest, ABucketThatCouldNotBeReadIsHiddenFromOlderViews) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  EXPECT_EQ(Find(KeyIn(0)), Code::kOk);
  {
    KeyReads reads;
    const ScopedHook hook(&reads);
    reads.fails = true;
    index_->RestoreRest();
  }
  EXPECT_TRUE(messages_.Said("bucket 6 cannot be read"));
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  const uint64_t unchanged = KeyIn(5);
  ASSERT_NO_FATAL_FAILURE(Write(KeyIn(6)));
  ValueRef ref;
  EXPECT_EQ(index_->FindAt(KeyIn(6), view.version, &ref).code(), Code::kIOError);
  EXPECT_EQ(index_->FindAt(unchanged, view.version, &ref).code(), Code::kOk);
  EXPECT_EQ(Find(KeyIn(6)), Code::kOk);
  ViewRegistry::Release(&view);
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

TEST_F(WaitingBucketsTest, ManyThreadsNeedTheSameBuckets) {
  ASSERT_NO_FATAL_FAILURE(OpenWaiting());
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      if (t == 0) index_->RestoreRest();
      ExpectFinds(31);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_NO_FATAL_FAILURE(ExpectFinds());
}

}  // namespace
}  // namespace engine_race::test

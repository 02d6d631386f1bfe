// Key logs that cannot be read: a fault concerns only its bucket and ends when reads succeed again.
// No view shows anything wrong meanwhile.
#include "engine_race/index/unread_buckets.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kBuckets = 4;
constexpr uint32_t kBad = 1;
// Records of each bucket: more than a page of key entries, so that some are in the log.
constexpr uint64_t kUnreadRecords = 300;

// Fails the reads of one bucket's key log while it is told to, and counts the reads of all buckets.
class KeyLogFault : public SystemCallHook {
 public:
  explicit KeyLogFault(const BucketLog& log) : log_(log) {}
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPread) return call->Proceed();
    for (uint32_t b = 0; b < kBuckets; ++b) {
      if (!IsOf(b, *call)) continue;
      ++reads[b];
      if (b != kBad) continue;
      if (on_bad) on_bad();
      if (!fails) continue;
      errno = EIO;
      return -1;
    }
    return call->Proceed();
  }
  std::atomic<bool> fails{true};
  std::array<std::atomic<uint64_t>, kBuckets> reads{};
  std::function<void()> on_bad;

 private:
  bool IsOf(uint32_t bucket, const SystemCall& call) const {
    const uint32_t row_records = log_.geometry().row_records();
    for (uint64_t slot = 0; slot < log_.slots().SlotEnd(bucket); slot += row_records) {
      const SlotLocation keys = log_.slots().LocateKeys(bucket, slot, row_records);
      const auto begin = static_cast<off_t>(keys.offset);
      if (call.fd == keys.file->fd() && call.offset >= begin &&
          call.offset < begin + static_cast<off_t>(log_.geometry().segment_key_bytes())) {
        return true;
      }
    }
    return false;
  }

  const BucketLog& log_;
};

class UnreadBucketsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.bucket_count = kBuckets;
    options_.file_count = 2;
    options_.value_group_bytes = 8192;
    options_.io_backend = IoBackend::kPsync;
    options_.build_thread_count = 2;
    ASSERT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
    for (uint32_t b = 0; b < kBuckets; ++b) {
      for (uint64_t i = 0; i < kUnreadRecords; ++i) Append(b, i);
    }
    fault_ = std::make_unique<KeyLogFault>(*log_);
    hook_ = std::make_unique<ScopedHook>(fault_.get());
    const Status built = Index::Build(log_.get(), options_, &index_);
    ASSERT_TRUE(built.ok()) << built.ToString();
  }
  ~UnreadBucketsTest() override { index_.reset(); }

  uint64_t Key(uint32_t bucket, uint64_t i) const {
    return log_->geometry().FirstKeyOf(bucket) + i;
  }
  void Append(uint32_t bucket, uint64_t i) {
    const Status status = log_->Append(Key(bucket, i), ValueOf(Key(bucket, i), 1).data());
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  Status Find(uint32_t bucket, uint64_t i) const {
    ValueRef ref;
    return index_->Find(Key(bucket, i), &ref);
  }
  Status FindAt(uint32_t bucket, uint64_t i, uint64_t version) const {
    ValueRef ref;
    return index_->Find(Key(bucket, i), &ref, version);
  }
  Status Collect(uint32_t bucket, uint64_t version, size_t* count) const {
    std::vector<IndexEntry> entries;
    bool complete = false;
    const Status status =
        index_->Collect(bucket, 0, ~uint64_t{0}, ~size_t{0}, &entries, &complete, version);
    *count = entries.size();
    return status;
  }

  TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<KeyLogFault> fault_;
  std::unique_ptr<ScopedHook> hook_;
  std::unique_ptr<Index> index_;
};

TEST_F(UnreadBucketsTest, TheFaultIsTheBucketsAlone) {
  const uint64_t reads_of_others = fault_->reads[0] + fault_->reads[2] + fault_->reads[3];
  for (uint64_t i = 0; i < kUnreadRecords; i += 13) {
    for (uint32_t b = 0; b < kBuckets; ++b) {
      ASSERT_EQ(Find(b, i).code(), b == kBad ? Code::kIOError : Code::kOk) << b;
    }
  }
  const Status status = Find(kBad, 0);
  EXPECT_NE(status.message().find("bucket 1"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find(log_->slots().LocateKeys(kBad, 0).file->name()),
            std::string::npos);
  size_t count = 0;
  EXPECT_EQ(Collect(kBad, kLatestVersion, &count).code(), Code::kIOError);
  EXPECT_TRUE(Collect(2, kLatestVersion, &count).ok());
  EXPECT_EQ(count, kUnreadRecords);

  std::vector<uint64_t> keys(2 * kUnreadRecords);
  ASSERT_TRUE(index_->FirstKeys(0, ~uint64_t{0}, kLatestVersion, keys, &count).ok());
  EXPECT_EQ(count, kUnreadRecords) << "those before the bucket";
  EXPECT_EQ(index_->FirstKeys(Key(kBad, 0), ~uint64_t{0}, kLatestVersion, keys, &count).code(),
            Code::kIOError);
  EXPECT_EQ(index_->LastKeys(0, Key(kBad, 5), kLatestVersion, keys, &count).code(), Code::kIOError);
  EXPECT_EQ(fault_->reads[0] + fault_->reads[2] + fault_->reads[3], reads_of_others);
}

TEST_F(UnreadBucketsTest, TheNextCallAfterTheFaultReadsTheBucketAndNoOther) {
  // So few failures that there is no pause.
  EXPECT_EQ(Find(kBad, 0).code(), Code::kIOError);
  Append(kBad, kUnreadRecords);
  fault_->fails = false;
  const uint64_t reads_of_others = fault_->reads[0] + fault_->reads[2] + fault_->reads[3];
  size_t count = 0;
  ASSERT_TRUE(Collect(kBad, kLatestVersion, &count).ok());
  EXPECT_EQ(count, kUnreadRecords + 1) << "what was appended meanwhile is there";
  const uint64_t reads = fault_->reads[kBad];
  Append(kBad, kUnreadRecords + 1);
  for (uint64_t i = 0; i < kUnreadRecords + 2; ++i) ASSERT_TRUE(Find(kBad, i).ok()) << i;
  EXPECT_EQ(fault_->reads[kBad], reads);
  EXPECT_EQ(fault_->reads[0] + fault_->reads[2] + fault_->reads[3], reads_of_others);
}

TEST_F(UnreadBucketsTest, AnAttemptHoldsUpNoOtherBucketAndNoWrite) {
  std::atomic<bool> entered{false};
  std::atomic<bool> go_on{false};
  fault_->on_bad = [&] {
    entered = true;
    while (!go_on) std::this_thread::yield();
  };
  fault_->fails = false;
  EXPECT_EQ(Find(kBad, 7).code(), Code::kIOError) << "what the build has met";
  std::thread reader([this] { EXPECT_TRUE(Find(kBad, 7).ok()); });
  while (!entered) std::this_thread::yield();
  EXPECT_TRUE(Find(0, 7).ok());
  EXPECT_TRUE(Find(2, 7).ok());
  for (uint64_t i = 0; i < kUnreadRecords; ++i) Append(kBad, kUnreadRecords + i);
  go_on = true;
  reader.join();
  for (uint64_t i = 0; i < 2 * kUnreadRecords; ++i) ASSERT_TRUE(Find(kBad, i).ok()) << i;
}

TEST_F(UnreadBucketsTest, ManyCallersGetTheSameAnswers) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (uint64_t i = 0; i < kUnreadRecords; ++i) {
        const Status status = Find(kBad, i);
        ASSERT_TRUE(status.ok() || status.code() == Code::kIOError) << status.ToString();
        if (t == 0 && i == kUnreadRecords / 2) fault_->fails = false;
        if (t == 1) Append(kBad, kUnreadRecords + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The pause may not have ended.
  while (!Find(kBad, 0).ok()) std::this_thread::yield();
  for (uint64_t i = 0; i < 2 * kUnreadRecords; ++i) ASSERT_TRUE(Find(kBad, i).ok()) << i;
}

TEST_F(UnreadBucketsTest, AViewFromBeforeSeesAnUnchangedBucket) {
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  EXPECT_EQ(FindAt(kBad, 0, view.version).code(), Code::kIOError);
  fault_->fails = false;
  EXPECT_TRUE(FindAt(kBad, 0, view.version).ok());
  Append(kBad, kUnreadRecords);
  EXPECT_TRUE(Find(kBad, kUnreadRecords).ok());
  EXPECT_EQ(FindAt(kBad, kUnreadRecords, view.version).code(), Code::kNotFound);
  ViewRegistry::Release(&view);
}

TEST_F(UnreadBucketsTest, AViewFromBeforeDoesNotSeeAChangedBucket) {
  ViewRegistry::View before;
  ASSERT_TRUE(index_->views().Take(&before).ok());
  Append(kBad, kUnreadRecords);
  fault_->fails = false;
  EXPECT_EQ(Find(kBad, kUnreadRecords).code(), Code::kIOError) << "what the build has met";
  ASSERT_TRUE(Find(kBad, kUnreadRecords).ok());
  ViewRegistry::View after;
  ASSERT_TRUE(index_->views().Take(&after).ok());
  size_t count = 0;
  ValueRef ref;
  EXPECT_EQ(FindAt(kBad, 0, before.version).code(), Code::kIOError);
  BlockLookup lookup;
  EXPECT_EQ(index_->FindHot(Key(kBad, 0), &ref, &lookup, {}, before.version).code(),
            Code::kIOError);
  EXPECT_EQ(Collect(kBad, before.version, &count).code(), Code::kIOError);
  EXPECT_TRUE(FindAt(0, 0, before.version).ok());
  EXPECT_TRUE(FindAt(kBad, kUnreadRecords, after.version).ok());
  ASSERT_TRUE(Collect(kBad, after.version, &count).ok());
  EXPECT_EQ(count, kUnreadRecords + 1);
  ViewRegistry::Release(&before);
  ViewRegistry::Release(&after);
}

TEST(UnreadBucketsPolicyTest, AttemptsInARowBackOff) {
  using std::chrono::milliseconds;
  EXPECT_EQ(UnreadBuckets::PauseAfter(0), milliseconds(0));
  EXPECT_EQ(UnreadBuckets::PauseAfter(2), milliseconds(0));
  EXPECT_EQ(UnreadBuckets::PauseAfter(3), milliseconds(1));
  EXPECT_EQ(UnreadBuckets::PauseAfter(8), milliseconds(32));
  EXPECT_EQ(UnreadBuckets::PauseAfter(1000000), milliseconds(1024));
}

TEST(UnreadBucketsPolicyTest, ABucketIsReadOnceAndOthersNever) {
  UnreadBuckets unread;
  unread.Add(3, 77, Status::IOError("at first"));
  uint32_t attempts = 0;
  const auto read = [&](const uint64_t* record_count) {
    EXPECT_EQ(*record_count, 77U);
    return ++attempts == 2 ? Status::Ok() : Status::IOError("again");
  };
  EXPECT_TRUE(unread.Load(2, read).ok());
  EXPECT_EQ(attempts, 0U);
  EXPECT_EQ(unread.Load(3, read).message(), "at first");
  EXPECT_EQ(attempts, 0U);
  EXPECT_EQ(unread.Load(3, read).message(), "again");
  EXPECT_TRUE(unread.Load(3, read).ok());
  EXPECT_TRUE(unread.Load(3, read).ok());
  EXPECT_EQ(attempts, 2U);
}

TEST(UnreadBucketsPolicyTest, AWaitingBucketIsReadByTheFirstCall) {
  UnreadBuckets unread;
  unread.AddWaiting(3);
  std::vector<uint64_t> counts;
  Status answer = Status::IOError("not yet");
  const auto read = [&](uint64_t* record_count) {
    counts.push_back(*record_count);
    *record_count = 5;
    return answer;
  };
  EXPECT_EQ(unread.Load(3, read).message(), "not yet");
  answer = Status::Ok();
  EXPECT_TRUE(unread.Load(3, read).ok());
  EXPECT_TRUE(unread.Load(3, read).ok());
  EXPECT_EQ(counts, (std::vector<uint64_t>{UnreadBuckets::kWaitingCount, 5}));
  EXPECT_FALSE(unread.IsHidden(3, 0));
}

}  // namespace
}  // namespace engine_race::test

#include "engine_race/scan/window_reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/faults/system_calls.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kSmallWindow = 4;

class FailReadsOfValues : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPread || PathOf(*call).find("/value_") == std::string::npos) {
      return call->Proceed();
    }
    errno = EIO;
    return -1;
  }
};

// Keys 1, 2, ... 200 and as many in each of the other three buckets.
class WindowReaderTest : public ::testing::Test {
 protected:
  WindowReaderTest() : store_(4) {
    for (uint64_t bucket = 0; bucket < 4; ++bucket) {
      for (uint64_t i = 1; i <= kEach; ++i) store_.Put(KeyIn(bucket, i));
    }
    store_.OpenReader();
    Options options = store_.options;
    options.io_backend = IoBackend::kPsync;
    context_ = std::make_unique<ScanContext>(*store_.log, *store_.index, options, RangeTuning());
    pool_ = std::make_unique<WindowPool>(*context_, /*window_count=*/1);
  }

  static uint64_t KeyIn(uint64_t bucket, uint64_t i) { return (bucket << 62) + i; }

  static constexpr uint64_t kEach = 200;
  ScanStore store_;
  std::unique_ptr<ScanContext> context_;
  std::unique_ptr<WindowPool> pool_;
};

TEST_F(WindowReaderTest, WindowByWindowItReadsEveryRecordOnce) {
  WindowReader reader(context_.get(), pool_.get());
  ModelVisitor visitor(store_.model);
  uint64_t first = 0;
  uint32_t window_count = 0;
  do {
    ASSERT_TRUE(reader.Read(first, UINT64_MAX).ok());
    EXPECT_LE(reader.record_count(), WindowPool::kWindowRecords);
    ASSERT_TRUE(reader.VisitAll(std::ref(visitor)).ok());
    first = reader.next_key();
    ++window_count;
  } while (!reader.complete());
  EXPECT_TRUE(visitor.complete()) << visitor.count;
  EXPECT_EQ(window_count, (4 * kEach + 63) / 64) << "windows reach over the ends of buckets";
}

TEST_F(WindowReaderTest, WithoutAWindowOfThePoolItReadsAFewRecordsAtATime) {
  WindowReader first(context_.get(), pool_.get());
  ASSERT_TRUE(first.Read(0, UINT64_MAX).ok());
  EXPECT_EQ(first.record_count(), WindowPool::kWindowRecords);
  const uint64_t pool_bytes = pool_->memory_bytes();
  {
    WindowReader second(context_.get(), pool_.get());
    ASSERT_TRUE(second.Read(0, UINT64_MAX).ok());
    EXPECT_EQ(second.record_count(), kSmallWindow);
    EXPECT_EQ(pool_->memory_bytes(), pool_bytes + kSmallWindow * kValueBytes);
    ModelVisitor visitor(store_.model, 0, 4);
    EXPECT_TRUE(second.VisitAll(std::ref(visitor)).ok());
    EXPECT_TRUE(visitor.complete());
  }
  EXPECT_EQ(pool_->memory_bytes(), pool_bytes) << "memory of its own is given back";
  first.GiveBack();
  WindowReader third(context_.get(), pool_.get());
  ASSERT_TRUE(third.Read(0, UINT64_MAX).ok());
  EXPECT_EQ(third.record_count(), WindowPool::kWindowRecords) << "the window is free again";
}

TEST_F(WindowReaderTest, ALongWalkTakesWindowsWhileHalfOfThemAreLeft) {
  WindowPool pool(*context_, /*window_count=*/8);
  WindowReader reader(context_.get(), &pool);
  ModelVisitor visitor(store_.model);
  uint64_t first = 0;
  do {
    ASSERT_TRUE(reader.Read(first, UINT64_MAX, kLatestVersion, WindowPool::kWalkRecords).ok());
    // A half of the room is for gaps.
    EXPECT_LE(reader.record_count(), 2 * WindowPool::kWindowRecords);
    ASSERT_TRUE(reader.VisitAll(std::ref(visitor)).ok());
    first = reader.next_key();
  } while (!reader.complete());
  EXPECT_TRUE(visitor.complete()) << visitor.count;
  EXPECT_EQ(pool.memory_bytes(), 4 * WindowPool::kWindowBytes);
  WindowReader another(context_.get(), &pool);
  ASSERT_TRUE(another.Read(0, UINT64_MAX, kLatestVersion, WindowPool::kWalkRecords).ok());
  EXPECT_EQ(another.record_count(), WindowPool::kWindowRecords);
  // A short reading gives back what it does not need.
  ASSERT_TRUE(reader.Read(0, UINT64_MAX, kLatestVersion, 10).ok());
  uint32_t count = 0;
  ASSERT_TRUE(another.Reserve(WindowPool::kWalkRecords, /*may_allocate=*/true, &count).ok());
  EXPECT_EQ(count, 96u) << "three windows: one more would leave less than a half";
}

TEST_F(WindowReaderTest, ASmallWindowIsExchangedOnceAnotherIsFree) {
  WindowReader holder(context_.get(), pool_.get());
  ASSERT_TRUE(holder.Read(0, UINT64_MAX).ok());
  WindowReader reader(context_.get(), pool_.get());
  ASSERT_TRUE(reader.Read(0, UINT64_MAX).ok());
  EXPECT_EQ(reader.record_count(), kSmallWindow);
  holder.GiveBack();
  ASSERT_TRUE(reader.Read(0, UINT64_MAX).ok());
  EXPECT_EQ(reader.record_count(), WindowPool::kWindowRecords);
}

TEST_F(WindowReaderTest, WithoutAFreeWindowNothingIsAllocatedUnlessItMayBe) {
  WindowReader holder(context_.get(), pool_.get());
  ASSERT_TRUE(holder.Read(0, UINT64_MAX).ok());
  const uint64_t pool_bytes = pool_->memory_bytes();
  WindowReader reader(context_.get(), pool_.get());
  uint32_t count = 1;
  ASSERT_TRUE(reader.Reserve(10, /*may_allocate=*/false, &count).ok());
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(pool_->memory_bytes(), pool_bytes);
  ASSERT_TRUE(reader.Reserve(10, /*may_allocate=*/true, &count).ok());
  EXPECT_EQ(count, kSmallWindow);
}

TEST_F(WindowReaderTest, FindsWhatItHasRead) {
  WindowReader reader(context_.get(), pool_.get());
  ASSERT_TRUE(reader.Read(3, UINT64_MAX, kLatestVersion, /*max_records=*/5).ok());
  EXPECT_EQ(reader.record_count(), 5u);
  EXPECT_EQ(reader.next_key(), 8u);
  for (uint64_t key = 3; key < 8; ++key) {
    uint32_t entry = 0;
    ASSERT_TRUE(reader.Find(key, &entry));
    const char* value = nullptr;
    ASSERT_TRUE(reader.Value(entry, &value).ok());
    EXPECT_EQ(std::string(value, kValueBytes), ValueOf(key, 1));
  }
  uint32_t entry = 0;
  EXPECT_FALSE(reader.Find(8, &entry));
  reader.Clear();
  EXPECT_FALSE(reader.Find(3, &entry));
}

TEST_F(WindowReaderTest, ValuesThatCannotBeReadFailAloneAndStagedOnesDoNot) {
  const uint64_t logged = store_.log->LoggedValueWatermark(0);
  ASSERT_LT(logged, kEach + 1);
  store_.Put(KeyIn(0, kEach + 1));  // staged
  WindowReader reader(context_.get(), pool_.get());
  {
    FailReadsOfValues failing;
    const ScopedHook hook(&failing);
    ASSERT_TRUE(reader.Read(kEach, kEach + 1).ok()) << "who wants the values is told";
  }
  ASSERT_EQ(reader.record_count(), 2u);
  const char* value = nullptr;
  EXPECT_EQ(reader.Value(0, &value).code(), Code::kIOError);
  ASSERT_TRUE(reader.Value(1, &value).ok());
  EXPECT_EQ(std::string(value, kValueBytes), ValueOf(kEach + 1, 1));
}

TEST_F(WindowReaderTest, TheOldStateIsReadAtItsVersion) {
  ViewRegistry::View view;
  ASSERT_TRUE(store_.index->views().Take(&view).ok());
  ASSERT_TRUE(store_.log->Append(5, ValueOf(5, 2).data()).ok());
  WindowReader reader(context_.get(), pool_.get());
  for (const auto& [version, round] : {std::pair(view.version, 1), std::pair(kLatestVersion, 2)}) {
    ASSERT_TRUE(reader.Read(5, 5, version).ok());
    const char* value = nullptr;
    ASSERT_TRUE(reader.Value(0, &value).ok());
    EXPECT_EQ(std::string(value, kValueBytes), ValueOf(5, round));
  }
  ViewRegistry::Release(&view);
}

TEST_F(WindowReaderTest, QueuesAreFewAndUsedAgain) {
  std::unique_ptr<io::ReadQueue> queue = pool_->TakeQueue();
  ASSERT_NE(queue, nullptr);
  const io::ReadQueue* const made = queue.get();
  pool_->GiveQueue(std::move(queue));
  queue = pool_->TakeQueue();
  EXPECT_EQ(queue.get(), made);
  std::vector<std::unique_ptr<io::ReadQueue>> others;
  while (std::unique_ptr<io::ReadQueue> other = pool_->TakeQueue()) {
    others.push_back(std::move(other));
    ASSERT_LT(others.size(), 100u);
  }
  pool_->GiveQueue(std::move(queue));
  EXPECT_EQ(pool_->TakeQueue().get(), made);
}

}  // namespace
}  // namespace engine_race::test

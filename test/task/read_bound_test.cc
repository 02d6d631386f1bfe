// How many posted reads may be pending: over the pool, and two bounds by themselves.
#include "engine_race/task/read_bound.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "test/task/read_pool_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

// Until `count` threads wait for a place.
void AwaitWaiting(const ReadBound& bound, uint32_t count) {
  while (bound.waiting_count() < count) std::this_thread::yield();
}

TEST(ReadBoundTest, TheDefaultKeepsWorkersBusy) {
  Options options;
  options.worker_count = 64;
  options.tasks_per_worker = 128;
  EXPECT_EQ(ReadPool::PostedLimit(options), 2U * 64 * 128);
  options.worker_count = options.tasks_per_worker = 1;
  EXPECT_EQ(ReadPool::PostedLimit(options), 1024U);
  options.worker_count = kMaxWorkerCount;
  options.tasks_per_worker = kMaxTasksPerWorker;
  EXPECT_EQ(ReadPool::PostedLimit(options), kMaxAsyncReadLimit);
  options.async_read_limit = 3;
  EXPECT_EQ(ReadPool::PostedLimit(options), 3U);
}

TEST(ReadBoundTest, AtTheLimitItAnswersBusy) {
  ReadBound bound(2, false);
  EXPECT_TRUE(bound.Take().ok());
  EXPECT_TRUE(bound.Take().ok());
  const Status busy = bound.Take();
  EXPECT_EQ(busy.code(), Code::kBusy);
  EXPECT_EQ(busy.ToString(), "kBusy: 2 asynchronous reads are pending");
  EXPECT_EQ(bound.pending_count(), 2U);
  bound.Give();
  EXPECT_TRUE(bound.Take().ok());
  bound.Give();
  bound.Give();
  EXPECT_EQ(bound.pending_count(), 0U);
  EXPECT_EQ(bound.most_pending_count(), 2U);
}

TEST(ReadBoundTest, AtTheLimitItWaitsForAPlace) {
  ReadBound bound(1, true);
  ASSERT_TRUE(bound.Take().ok());
  std::atomic<bool> given{false};
  std::array<std::thread, 2> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      EXPECT_TRUE(bound.Take().ok());
      EXPECT_TRUE(given);
      bound.Give();
    });
  }
  AwaitWaiting(bound, 2);
  given = true;
  bound.Give();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bound.pending_count(), 0U);
  EXPECT_EQ(bound.most_pending_count(), 1U);
  EXPECT_EQ(bound.waiting_count(), 0U);
}

// Places come and go on many threads. Each waits at times, and none for ever.
TEST(ReadBoundTest, NoPlaceAndNoWakeUpIsLost) {
  constexpr uint32_t kLimit = 3;
  ReadBound bound(kLimit, true);
  std::atomic<uint32_t> held{0};
  std::atomic<bool> too_many{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (uint64_t n = 0; n < Sized(20000, 2000); ++n) {
        EXPECT_TRUE(bound.Take().ok());
        if (++held > kLimit) too_many = true;
        if (n % 16 == 0) std::this_thread::yield();
        --held;
        bound.Give();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(too_many);
  EXPECT_EQ(bound.pending_count(), 0U);
  EXPECT_LE(bound.most_pending_count(), kLimit);
}

TEST(ReadBoundTest, AFunctionPassesItsPlaceOnOnce) {
  ReadBound bound(1, true);
  ASSERT_TRUE(bound.Take().ok());
  {
    const ReadBound::Function function(&bound);
    EXPECT_TRUE(bound.Take().ok());
    EXPECT_EQ(bound.Take().code(), Code::kBusy) << "it never waits";
    EXPECT_EQ(bound.pending_count(), 1U);
  }
  EXPECT_EQ(bound.pending_count(), 1U) << "of the read that was started";
  { const ReadBound::Function function(&bound); }
  EXPECT_EQ(bound.pending_count(), 0U);
}

// Threads of two stores that waited for each other would do so for ever.
TEST(ReadBoundTest, AFunctionWaitsForNoOtherStoreEither) {
  ReadBound bound(1, true);
  ReadBound other(1, true);
  ASSERT_TRUE(bound.Take().ok());
  ASSERT_TRUE(other.Take().ok());
  {
    const ReadBound::Function function(&bound);
    EXPECT_EQ(other.Take().code(), Code::kBusy);
    {
      const ReadBound::Function inner(&other);
      EXPECT_EQ(bound.Take().code(), Code::kBusy) << "the place is the outer function's";
    }
    EXPECT_TRUE(other.Take().ok());
  }
  EXPECT_EQ(bound.pending_count(), 0U);
  other.Give();
}

class BoundedPoolTest : public ReadPoolTest {
 protected:
  static constexpr uint32_t kLimit = 4;

  ~BoundedPoolTest() override {
    Leave();
    pool_.reset();
  }

  void Leave() {
    left_ = true;
    left_.notify_all();
  }
  void OpenWith(bool waits) {
    options_.async_read_limit = kLimit;
    options_.async_read_waits = waits;
    ASSERT_NO_FATAL_FAILURE(Open(1));
    values_.resize(kLimit + 1);
    // The only worker is held up by the function of the first read.
    ASSERT_TRUE(Post(0, &values_[0], [this](const Status&) {
                  entered_.count_down();
                  left_.wait(false);
                }).ok());
    entered_.wait();
    for (size_t i = 1; i < kLimit; ++i) {
      ASSERT_TRUE(Post(0, &values_[i], [this](const Status&) { ++answered_; }).ok());
    }
  }

  std::vector<std::string> values_;
  std::atomic<uint64_t> answered_{0};
  std::latch entered_{1};
  std::atomic<bool> left_{false};  // the function of the first read may return
};

TEST_F(BoundedPoolTest, AFloodOfReadsIsBusyAndTakesNoMemory) {
  ASSERT_NO_FATAL_FAILURE(OpenWith(false));
  const uint64_t bytes = pool_->memory_bytes();
  EXPECT_GE(bytes, kLimit * sizeof(PostedRead));
  for (int i = 0; i < 1000; ++i) {
    const Status refused = Post(0, &values_[kLimit], [](const Status&) { ADD_FAILURE(); });
    ASSERT_EQ(refused.code(), Code::kBusy) << refused.ToString();
  }
  EXPECT_EQ(pool_->memory_bytes(), bytes);
  EXPECT_EQ(pool_->bound().pending_count(), kLimit);
  Leave();
  pool_->Close();
  EXPECT_EQ(answered_, kLimit - 1);
  EXPECT_EQ(pool_->bound().pending_count(), 0U);
  EXPECT_EQ(pool_->bound().most_pending_count(), kLimit);
}

TEST_F(BoundedPoolTest, APostWaitsUntilAFunctionHasReturned) {
  ASSERT_NO_FATAL_FAILURE(OpenWith(true));
  std::thread caller([&] {
    EXPECT_TRUE(Post(0, &values_[kLimit], [this](const Status&) { ++answered_; }).ok());
    EXPECT_TRUE(left_);
  });
  AwaitWaiting(pool_->bound(), 1);
  Leave();
  caller.join();
  pool_->Close();
  EXPECT_EQ(answered_, kLimit) << "all but the first";
  EXPECT_EQ(pool_->bound().most_pending_count(), kLimit);
}

// Every place is held by a chain of reads, each of which starts the next one.
TEST_F(BoundedPoolTest, FunctionsStartTheNextReadAtTheLimit) {
  ASSERT_NO_FATAL_FAILURE(OpenWith(true));
  constexpr uint64_t kLength = 500;
  std::array<uint64_t, kLimit> lengths = {};
  std::latch ended(kLimit);
  const std::function<void(size_t)> go_on = [&](size_t chain) {
    if (++lengths[chain] == kLength) return ended.count_down();
    EXPECT_TRUE(Post(0, &values_[chain], [&, chain](const Status&) { go_on(chain); }).ok());
  };
  Leave();
  for (size_t chain = 0; chain < kLimit; ++chain) {
    ASSERT_TRUE(Post(0, &values_[chain], [&, chain](const Status&) { go_on(chain); }).ok());
  }
  ended.wait();
  pool_->Close();
  EXPECT_EQ(pool_->bound().most_pending_count(), kLimit);
}

}  // namespace
}  // namespace engine_race::test

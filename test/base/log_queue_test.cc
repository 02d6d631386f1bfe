#include "engine_race/base/log_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace engine_race {
namespace {

std::shared_ptr<LogQueue> QueueOf(size_t max_count) {
  std::shared_ptr<LogQueue> queue;
  EXPECT_TRUE(LogQueue::Make(max_count, &queue).ok());
  return queue;
}

TEST(LogQueueTest, GivesMessagesInTheirOrder) {
  const auto queue = QueueOf(10);
  LogQueue::Message message;
  EXPECT_FALSE(queue->Take(&message));
  EXPECT_EQ(queue->waiting_count(), 0u);
  queue->Put(LogLevel::kInfo, "first");
  queue->Put(LogLevel::kError, "second");
  EXPECT_EQ(queue->waiting_count(), 2u);
  ASSERT_TRUE(queue->Take(&message));
  EXPECT_EQ(message.text, "first");
  EXPECT_EQ(message.level, LogLevel::kInfo);
  // After September 2020, and not in another unit.
  EXPECT_GT(message.time_ns, uint64_t{1'600'000'000} * 1'000'000'000);
  const uint64_t first_ns = message.time_ns;
  ASSERT_TRUE(queue->Take(&message));
  EXPECT_EQ(message.text, "second");
  EXPECT_EQ(message.level, LogLevel::kError);
  EXPECT_GE(message.time_ns, first_ns);
  EXPECT_EQ(queue->waiting_count(), 0u);
  EXPECT_FALSE(queue->Take(&message));
}

TEST(LogQueueTest, KeepsTheFirstMessagesAndCountsTheOthers) {
  const auto queue = QueueOf(2);
  for (int i = 0; i < 5; ++i) queue->Put(LogLevel::kError, std::to_string(i));
  EXPECT_EQ(queue->waiting_count(), 3u);
  LogQueue::Message message;
  for (const char* const text : {"0", "1"}) {
    ASSERT_TRUE(queue->Take(&message));
    EXPECT_EQ(message.text, text);
  }
  ASSERT_TRUE(queue->Take(&message));
  EXPECT_EQ(message.text, "messages dropped from the log: 3");
  EXPECT_EQ(message.level, LogLevel::kWarning);
  EXPECT_EQ(queue->waiting_count(), 0u);
  EXPECT_FALSE(queue->Take(&message));
  queue->Put(LogLevel::kInfo, "it has room again");
  ASSERT_TRUE(queue->Take(&message));
  EXPECT_EQ(message.text, "it has room again");
  EXPECT_FALSE(queue->Take(&message));
}

TEST(LogQueueTest, RefusesToBeEmptyOrHuge) {
  std::shared_ptr<LogQueue> queue;
  EXPECT_EQ(LogQueue::Make(0, &queue).code(), Code::kInvalidArgument);
  EXPECT_EQ(LogQueue::Make(LogQueue::kMaxCount + 1, &queue).code(), Code::kInvalidArgument);
  EXPECT_EQ(queue, nullptr);
  EXPECT_TRUE(LogQueue::Make(LogQueue::kMaxCount, &queue).ok());
}

TEST(LogQueueTest, ManyThreadsPutAndTake) {
  constexpr int kThreads = 4;
  constexpr int kMessages = 500;
  const auto queue = QueueOf(kThreads * kMessages);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kMessages; ++i) queue->Put(LogLevel::kInfo, "a message");
    });
    threads.emplace_back([&] {
      LogQueue::Message message;
      while (taken < kThreads * kMessages) {
        if (queue->Take(&message)) taken += message.text == "a message" ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, kThreads * kMessages);
  EXPECT_EQ(queue->waiting_count(), 0u);
}

// Its lock may be held there for ever, by a thread that the child does not have.
TEST(LogQueueTest, AForkedChildGetsAndAddsNothing) {
  const auto queue = QueueOf(10);
  queue->Put(LogLevel::kInfo, "of the parent");
  const pid_t child = ::fork();
  if (child == 0) {
    LogQueue::Message message;
    const bool has_taken = queue->Take(&message);
    queue->Put(LogLevel::kInfo, "of the child");
    ::_exit(!has_taken && queue->waiting_count() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  LogQueue::Message message;
  EXPECT_TRUE(queue->Take(&message));
}

// At the fork another thread may be in the middle of changing the queue.
TEST(LogQueueTest, AForkedChildDoesNotFreeIt) {
  auto queue = QueueOf(10);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    // Too long for the string itself, so that it lies on the heap.
    const std::string text(100, 'x');
    LogQueue::Message message;
    while (!stop) {
      queue->Put(LogLevel::kInfo, text);
      queue->Take(&message);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      queue.reset();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace engine_race

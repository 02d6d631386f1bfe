#include "engine_race/index/read_write_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "test/test_util.h"

namespace engine_race {
namespace {

// ThreadSanitizer reports a missing order. The plain variables show a missing exclusion.
TEST(ReadWriteLockTest, WritersExcludeEverybody) {
  ReadWriteLock lock;
  uint64_t a = 0;
  uint64_t b = 0;
  const uint64_t rounds = test::Sized(200000, 20000);
  std::atomic<uint64_t> torn{0};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < rounds; ++i) {
        const std::lock_guard guard(lock);
        ++a;
        ++b;
      }
    });
  }
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < rounds; ++i) {
        const std::shared_lock guard(lock);
        if (a != b) ++torn;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(a, 2 * rounds);
}

TEST(ReadWriteLockTest, ReadersShare) {
  ReadWriteLock lock;
  const std::shared_lock mine(lock);
  bool has_read = false;
  std::thread other([&] {
    const std::shared_lock theirs(lock);
    has_read = true;
  });
  other.join();
  EXPECT_TRUE(has_read);
}

TEST(ReadWriteLockTest, WriterGetsInAmongEndlessReaders) {
  ReadWriteLock lock;
  std::atomic<bool> stop{false};
  std::atomic<int> reader_count{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const std::shared_lock guard(lock);
        ++reader_count;
        std::this_thread::yield();
        --reader_count;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    const std::lock_guard guard(lock);
    EXPECT_EQ(reader_count, 0);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace engine_race

#include "engine_race/io/buffer_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "test/test_util.h"

namespace engine_race::io {
namespace {

TEST(BufferPoolTest, LeasesAreAlignedAndApart) {
  BufferPool pool;
  std::vector<std::unique_ptr<BufferPool::Lease>> leases;
  std::set<char*> places;
  for (int i = 0; i < 200; ++i) {
    leases.push_back(std::make_unique<BufferPool::Lease>());
    ASSERT_TRUE(pool.Take(leases.back().get()).ok());
    EXPECT_EQ(reinterpret_cast<size_t>(leases.back()->data()) % kIoAlignment, 0u);
    places.insert(leases.back()->data());
  }
  EXPECT_EQ(places.size(), 200u);
  EXPECT_EQ(pool.memory_bytes(), 256u * BufferPool::kBufferBytes);
}

TEST(BufferPoolTest, BuffersComeBack) {
  BufferPool pool;
  for (int i = 0; i < 1000; ++i) {
    BufferPool::Lease lease;
    ASSERT_TRUE(pool.Take(&lease).ok());
  }
  EXPECT_EQ(pool.memory_bytes(), 64u * BufferPool::kBufferBytes);
}

// Two holders of one buffer would see each other's marks.
TEST(BufferPoolTest, NoBufferIsHeldTwice) {
  BufferPool pool;
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&pool, &clashes, t] {
      for (uint64_t i = 0; i < test::Sized(20000, 2000); ++i) {
        BufferPool::Lease lease;
        if (!pool.Take(&lease).ok()) ++clashes;
        std::memset(lease.data(), t, 64);
        if (i % 16 == 0) std::this_thread::yield();
        for (int b = 0; b < 64; ++b) clashes += lease.data()[b] != t;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes.load(), 0);
}

}  // namespace
}  // namespace engine_race::io

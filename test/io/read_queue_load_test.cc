// The suite over every back end of ReadQueue, many requests at once: none lost, none mixed up, and
// none that outlives its queue.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "test/io/read_queue_test_util.h"
#include "test/test_util.h"

namespace engine_race::io {
namespace {

class ReadQueueLoadTest : public ReadQueueTest {
 protected:
  // Page `i` of the file into page `i` of the memory, for all of [first, first + count).
  std::vector<ReadRequest> PageReads(int fd, uint32_t first, uint32_t count) const {
    std::vector<ReadRequest> requests;
    for (uint32_t page = first; page < first + count; ++page) {
      const uint64_t offset = uint64_t{page} * kPage;
      requests.push_back({fd, kPage, offset, memory() + offset, page});
    }
    return requests;
  }
  std::vector<ReadRequest> PageReads(uint32_t first, uint32_t count) const {
    return PageReads(file_->direct_fd(), first, count);
  }

  static void ExpectWhole(const std::vector<ReadCompletion>& done, size_t count) {
    ASSERT_EQ(done.size(), count);
    for (const ReadCompletion& completion : done) {
      ASSERT_EQ(completion.error, 0);
      ASSERT_EQ(completion.read_bytes, kPage);
    }
  }
};

TEST_P(ReadQueueLoadTest, ThousandsInFlight) {
  constexpr uint32_t kPages = 4096;
  Fill(uint64_t{kPages} * kPage);
  AllocateMemory(uint64_t{kPages} * kPage);
  auto queue = MakeQueue(kPages);
  ExpectWhole(ReadAll(queue.get(), PageReads(0, kPages)), kPages);
  EXPECT_TRUE(OffsetFile::Holds(memory(), 0, uint64_t{kPages} * kPage));
  size_t started = 0;
  ASSERT_TRUE(queue->Submit(PageReads(0, 1), &started).ok()) << "the queue is empty again";
}

// Batches, waits and polls of every size, between which the queue is full as often as empty.
TEST_P(ReadQueueLoadTest, RandomReadsBringTheirOwnBytes) {
  constexpr uint32_t kPages = 1024;
  constexpr uint32_t kDepth = 100;
  constexpr uint32_t kMaxReadPages = 8;
  const uint32_t read_count = static_cast<uint32_t>(test::Sized(6000, 2000));
  Fill(uint64_t{kPages} * kPage);
  AllocateMemory(uint64_t{kDepth} * kMaxReadPages * kPage);
  auto queue = MakeQueue(kDepth);
  std::mt19937 rng(20261);
  std::vector<uint32_t> free_tags(kDepth);
  for (uint32_t i = 0; i < kDepth; ++i) free_tags[i] = i;
  std::vector<ReadRequest> running(kDepth);  // by tag
  std::vector<ReadCompletion> done;
  for (uint32_t submitted = 0, finished = 0; finished < read_count;) {
    std::vector<ReadRequest> batch;
    const size_t wanted = std::min<size_t>(rng() % 64, read_count - submitted);
    while (batch.size() < wanted && !free_tags.empty()) {
      const uint32_t tag = free_tags.back();
      free_tags.pop_back();
      const uint32_t size_pages = 1 + rng() % kMaxReadPages;
      const uint64_t first_page = rng() % (kPages - size_pages + 1);
      char* const buffer = memory() + uint64_t{tag} * kMaxReadPages * kPage;
      std::memset(buffer, 0xee, size_pages * kPage);
      running[tag] = {file_->direct_fd(), size_pages * kPage, first_page * kPage, buffer, tag};
      batch.push_back(running[tag]);
    }
    size_t started = 0;
    ASSERT_TRUE(queue->Submit(batch, &started).ok());
    ASSERT_EQ(started, batch.size());
    submitted += static_cast<uint32_t>(started);
    const uint32_t min_count = rng() % 3 == 0 ? 0 : rng() % (kDepth + 20);
    const uint32_t in_flight = queue->in_flight();
    done.clear();
    ASSERT_TRUE(queue->Wait(min_count, &done).ok());
    ASSERT_GE(done.size(), std::min(min_count, in_flight));
    ASSERT_EQ(queue->in_flight(), in_flight - done.size());
    for (const ReadCompletion& completion : done) {
      const ReadRequest& request = running[completion.tag];
      ASSERT_EQ(completion.error, 0);
      ASSERT_EQ(completion.read_bytes, request.size_bytes);
      ASSERT_TRUE(OffsetFile::Holds(static_cast<const char*>(request.buffer), request.offset,
                                    request.size_bytes));
      free_tags.push_back(static_cast<uint32_t>(completion.tag));
    }
    finished += static_cast<uint32_t>(done.size());
  }
}

TEST_P(ReadQueueLoadTest, NoByteChangesAfterTheQueueIsGone) {
  constexpr uint32_t kPages = 2048;
  constexpr uint32_t kReadPages = 16;
  Fill(uint64_t{kPages} * kPage);
  for (const bool cached : {true, false}) {
    // Buffered reads of what is not cached wait for threads of the kernel, and may be given up.
    const bool direct = cached || GetParam().iopoll;
    for (int round = 0; round < 3; ++round) {
      file_->LeavePageCache();
      AllocateMemory(uint64_t{kPages} * kPage);
      {
        auto queue = MakeQueue(kPages / kReadPages);
        std::vector<ReadRequest> requests;
        for (uint64_t at = 0; at < uint64_t{kPages} * kPage; at += kReadPages * kPage) {
          requests.push_back({direct ? file_->direct_fd() : file_->fd(), kReadPages * kPage, at,
                              memory() + at, at});
        }
        size_t started = 0;
        ASSERT_TRUE(queue->Submit(requests, &started).ok());
        std::vector<ReadCompletion> done;
        if (round == 1) {
          ASSERT_TRUE(queue->Wait(3, &done).ok());
        }
      }
      EXPECT_TRUE(file_->HasLeftAlone(memory(), uint64_t{kPages} * kPage));
    }
  }
}

TEST_P(ReadQueueLoadTest, SixtyFourQueuesAtOnce) {
  constexpr uint32_t kQueues = 64;
  constexpr uint32_t kDepth = 8;
  Fill(uint64_t{kQueues} * kDepth * kPage);
  AllocateMemory(uint64_t{kQueues} * kDepth * kPage);
  std::vector<std::unique_ptr<ReadQueue>> queues;
  for (uint32_t i = 0; i < kQueues; ++i) {
    queues.push_back(MakeQueue(kDepth));
    size_t started = 0;
    ASSERT_TRUE(queues[i]->Submit(PageReads(i * kDepth, kDepth), &started).ok());
  }
  for (uint32_t i = 0; i < kQueues; ++i) {
    std::vector<ReadCompletion> done;
    ASSERT_TRUE(queues[i]->Wait(kDepth, &done).ok());
    ExpectWhole(done, kDepth);
    for (const ReadCompletion& completion : done) EXPECT_EQ(completion.tag / kDepth, i);
  }
  EXPECT_TRUE(OffsetFile::Holds(memory(), 0, uint64_t{kQueues} * kDepth * kPage));
}

// Every other thread starts reads, the ones between wait for them; each is gone when the next
// comes.
TEST_P(ReadQueueLoadTest, GoesFromThreadToThread) {
  if (GetParam().single_thread) return;
  constexpr uint32_t kPages = 1024;
  constexpr uint32_t kDepth = 128;
  Fill(uint64_t{kPages} * kPage);
  AllocateMemory(uint64_t{kPages} * kPage);
  for (const bool direct : {true, false}) {
    if (!direct && GetParam().iopoll) continue;
    auto queue = MakeQueue(kDepth);
    file_->LeavePageCache();
    for (uint32_t first = 0; first < kPages; first += kDepth) {
      std::thread([&] {
        size_t started = 0;
        const int fd = direct ? file_->direct_fd() : file_->fd();
        EXPECT_TRUE(queue->Submit(PageReads(fd, first, kDepth), &started).ok());
      }).join();
      std::vector<ReadCompletion> done;
      std::thread([&] { EXPECT_TRUE(queue->Wait(kDepth / 2, &done).ok()); }).join();
      ASSERT_TRUE(queue->Wait(kDepth, &done).ok());
      ExpectWhole(done, kDepth);
    }
    EXPECT_TRUE(OffsetFile::Holds(memory(), 0, uint64_t{kPages} * kPage));
    std::memset(memory(), 0, uint64_t{kPages} * kPage);
  }
}

// As pools do it: a thread has a queue to itself for a while.
TEST_P(ReadQueueLoadTest, IdleQueuesGoFromThreadToThread) {
  if (GetParam().single_thread) return;
  constexpr uint32_t kDepth = 32;
  constexpr uint32_t kThreads = 4;
  Fill(uint64_t{kThreads} * kDepth * kPage);
  AllocateMemory(uint64_t{kThreads} * kDepth * kPage);
  auto queue = MakeQueue(kDepth);
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        const std::lock_guard<std::mutex> lock(mutex);
        std::vector<ReadCompletion> done;
        size_t started = 0;
        ASSERT_TRUE(queue->Submit(PageReads(i * kDepth, kDepth), &started).ok());
        ASSERT_TRUE(queue->Wait(kDepth, &done).ok());
        ExpectWhole(done, kDepth);
        for (const ReadCompletion& completion : done) ASSERT_EQ(completion.tag / kDepth, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(OffsetFile::Holds(memory(), 0, uint64_t{kThreads} * kDepth * kPage));
}

// Who closes a store is not who reads: the reading thread has ended, or waits for something else.
TEST_P(ReadQueueLoadTest, AnotherThreadMayDestroyTheQueue) {
  constexpr uint32_t kPages = 2048;
  constexpr uint64_t kSizeBytes = uint64_t{kPages} * kPage;
  Fill(kSizeBytes);
  for (const bool has_ended : {true, false}) {
    for (const bool direct : {true, false}) {
      if (!direct && GetParam().iopoll) continue;
      AllocateMemory(kSizeBytes);
      file_->LeavePageCache();
      auto queue = MakeQueue(kPages);
      std::promise<void> submitted;
      std::promise<void> may_end;
      std::thread reader([&] {
        size_t started = 0;
        const int fd = direct ? file_->direct_fd() : file_->fd();
        EXPECT_TRUE(queue->Submit(PageReads(fd, 0, kPages), &started).ok());
        submitted.set_value();
        if (!has_ended) may_end.get_future().wait();
      });
      submitted.get_future().wait();
      if (has_ended) reader.join();
      queue.reset();
      EXPECT_TRUE(file_->HasLeftAlone(memory(), kSizeBytes));
      if (!has_ended) {
        may_end.set_value();
        reader.join();
      }
    }
  }
}

// Whoever makes it, and whoever takes it apart when it is idle.
TEST_P(ReadQueueLoadTest, AnotherThreadMayMakeTheQueue) {
  constexpr uint32_t kDepth = 32;
  Fill(uint64_t{kDepth} * kPage);
  AllocateMemory(uint64_t{kDepth} * kPage);
  for (const bool leaves_idle : {true, false}) {
    auto queue = MakeQueue(kDepth);
    std::memset(memory(), 0, uint64_t{kDepth} * kPage);
    std::thread([&] {
      for (int round = 0; round < 3; ++round) {
        ExpectWhole(ReadAll(queue.get(), PageReads(0, kDepth)), kDepth);
      }
      if (leaves_idle) return;
      size_t started = 0;
      EXPECT_TRUE(queue->Submit(PageReads(0, kDepth), &started).ok());
      queue.reset();
    }).join();
    EXPECT_TRUE(OffsetFile::Holds(memory(), 0, uint64_t{kDepth} * kPage));
  }
}

std::string KindName(const ::testing::TestParamInfo<QueueKind>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Kinds, ReadQueueLoadTest, ::testing::ValuesIn(AllQueueKinds()), KindName);

}  // namespace
}  // namespace engine_race::io

// One suite over every back end of ReadQueue: what a request may be, and what comes back.
#include "engine_race/io/read_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "engine_race/io/read_queue_backends.h"
#include "test/io/read_queue_test_util.h"

namespace engine_race::io {
namespace {

TEST_P(ReadQueueTest, ReadsDirectAndAligned) {
  Fill(64 * kPage);
  AllocateMemory(16 * kPage);
  auto queue = MakeQueue(4);
  const ReadRequest requests[] = {
      {file_->direct_fd(), 4 * kPage, 8 * kPage, memory(), 0},
      {file_->direct_fd(), 8 * kPage, 40 * kPage, memory() + 4 * kPage, 1},
  };
  for (const ReadCompletion& completion : ReadAll(queue.get(), requests)) {
    EXPECT_EQ(0, completion.error);
    EXPECT_EQ(completion.tag == 0 ? 4 * kPage : 8 * kPage, completion.read_bytes);
  }
  EXPECT_TRUE(OffsetFile::Holds(memory(), 8 * kPage, 4 * kPage));
  EXPECT_TRUE(OffsetFile::Holds(memory() + 4 * kPage, 40 * kPage, 8 * kPage));
}

TEST_P(ReadQueueTest, ReadsIntoMemoryThatItWasNotTold) {
  Fill(16 * kPage);
  AllocateMemory(kPage);
  Region stranger;
  ASSERT_TRUE(Region::Allocate(4 * kPage, false, &stranger).ok());
  const OffsetFile other(8 * kPage);
  auto queue = MakeQueue(4);
  const ReadRequest requests[] = {
      {file_->direct_fd(), kPage, 2 * kPage, stranger.data(), 0},
      {other.direct_fd(), kPage, 3 * kPage, stranger.data() + kPage, 1},
      {other.direct_fd(), kPage, 5 * kPage, memory(), 2},
  };
  for (const ReadCompletion& completion : ReadAll(queue.get(), requests)) {
    EXPECT_EQ(0, completion.error);
    EXPECT_EQ(kPage, completion.read_bytes);
  }
  EXPECT_TRUE(OffsetFile::Holds(stranger.data(), 2 * kPage, kPage));
  EXPECT_TRUE(OffsetFile::Holds(stranger.data() + kPage, 3 * kPage, kPage));
  EXPECT_TRUE(OffsetFile::Holds(memory(), 5 * kPage, kPage));
}

TEST_P(ReadQueueTest, StopsShortOnlyAtTheEndOfTheFile) {
  const uint64_t file_bytes = 3 * kPage + 1000;
  Fill(file_bytes);
  AllocateMemory(24 * kPage);
  auto queue = MakeQueue(3);
  const ReadRequest requests[] = {
      {file_->direct_fd(), 8 * kPage, 0, memory(), 0},
      {file_->direct_fd(), 8 * kPage, 2 * kPage, memory() + 8 * kPage, 1},
      {file_->direct_fd(), 8 * kPage, 16 * kPage, memory() + 16 * kPage, 2},
  };
  for (const ReadCompletion& completion : ReadAll(queue.get(), requests)) {
    EXPECT_EQ(0, completion.error);
    const uint64_t expected = completion.tag == 0   ? file_bytes
                              : completion.tag == 1 ? file_bytes - 2 * kPage
                                                    : 0;
    EXPECT_EQ(expected, completion.read_bytes) << completion.tag;
  }
  EXPECT_TRUE(OffsetFile::Holds(memory(), 0, file_bytes));
  EXPECT_TRUE(OffsetFile::Holds(memory() + 8 * kPage, 2 * kPage, file_bytes - 2 * kPage));
}

TEST_P(ReadQueueTest, AnErrorTravelsWithItsRequest) {
  Fill(16 * kPage);
  AllocateMemory(16 * kPage);
  const int closed = dup(file_->fd());
  ASSERT_GE(closed, 0);
  close(closed);
  const int write_only = open(file_->path().c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(write_only, 0);
  auto queue = MakeQueue(8);
  const int direct = file_->direct_fd();
  const ReadRequest requests[] = {
      {closed, kPage, 0, memory(), 0},
      {direct, kPage, kPage, memory() + kPage, 1},
      {write_only, kPage, 0, memory() + 2 * kPage, 2},
      {-1, kPage, 0, memory() + 3 * kPage, 3},
      {direct, kPage, 4 * kPage, memory() + 4 * kPage, 4},
      {file_->fd(), kPage, 5 * kPage, reinterpret_cast<void*>(kPage), 5},
      {direct, kPage, ~uint64_t{0}, memory() + 6 * kPage, 6},
      {direct, kPage, 7 * kPage, memory() + 7 * kPage, 7},
  };
  const int expected[] = {EBADF, 0, EBADF, EBADF, 0, EFAULT, EINVAL, 0};
  for (int round = 0; round < 2; ++round) {
    const auto done = ReadAll(queue.get(), requests);
    for (size_t i = 0; i < done.size(); ++i) {
      EXPECT_EQ(expected[i], done[i].error) << i;
      EXPECT_EQ(expected[i] == 0 ? kPage : 0, done[i].read_bytes) << i;
    }
  }
  EXPECT_TRUE(OffsetFile::Holds(memory() + kPage, kPage, kPage));
  EXPECT_TRUE(OffsetFile::Holds(memory() + 4 * kPage, 4 * kPage, kPage));
  EXPECT_TRUE(OffsetFile::Holds(memory() + 7 * kPage, 7 * kPage, kPage));
  close(write_only);
}

TEST_P(ReadQueueTest, AMisalignedDirectReadFailsAlone) {
  Fill(16 * kPage);
  AllocateMemory(4 * kPage);
  if (!file_->is_direct()) GTEST_SKIP() << "no O_DIRECT here";
  char probe_buffer[16];
  if (pread(file_->direct_fd(), probe_buffer, 3, 1) >= 0) {
    GTEST_SKIP() << "direct reads of any alignment";
  }
  auto queue = MakeQueue(2);
  const ReadRequest requests[] = {
      {file_->direct_fd(), 3, 1, memory() + 5, 0},
      {file_->direct_fd(), kPage, kPage, memory() + kPage, 1},
  };
  for (const ReadCompletion& completion : ReadAll(queue.get(), requests)) {
    EXPECT_EQ(completion.tag == 0 ? EINVAL : 0, completion.error);
  }
  EXPECT_TRUE(OffsetFile::Holds(memory() + kPage, kPage, kPage));
}

TEST_P(ReadQueueTest, MoreThanTheDepthIsRefusedWhole) {
  Fill(16 * kPage);
  AllocateMemory(16 * kPage);
  auto queue = MakeQueue(3);
  std::vector<ReadRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back({file_->direct_fd(), kPage, i * kPage, memory() + i * kPage, i});
  }
  size_t started = 99;
  EXPECT_EQ(Code::kInvalidArgument, queue->Submit(requests, &started).code());
  EXPECT_EQ(0u, started);
  EXPECT_EQ(0u, queue->in_flight());
  requests.resize(2);
  ASSERT_TRUE(queue->Submit(requests, &started).ok());
  EXPECT_EQ(Code::kInvalidArgument, queue->Submit(requests, &started).code());
  EXPECT_EQ(0u, started);
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(100, &done).ok());
  EXPECT_EQ(2u, done.size());
  // What was refused was not read either.
  EXPECT_TRUE(OffsetFile::Holds(memory(), 0, 2 * kPage));
  EXPECT_TRUE(OffsetFile::Holds(memory() + kPage, kPage, kPage));
  for (uint32_t at = 2 * kPage; at < 4 * kPage; ++at) ASSERT_EQ(memory()[at], 0);
}

TEST_P(ReadQueueTest, WaitWithNothingInFlightReturns) {
  auto queue = MakeQueue(2);
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(5, &done).ok());
  ASSERT_TRUE(queue->Wait(0, &done).ok());
  size_t started = 1;
  ASSERT_TRUE(queue->Submit({}, &started).ok());
  EXPECT_EQ(0u, started);
  ASSERT_TRUE(queue->Wait(1, &done).ok());
  EXPECT_TRUE(done.empty());
}

TEST_P(ReadQueueTest, PollingSeesFinishedReads) {
  Fill(16 * kPage);
  AllocateMemory(kPage);
  auto queue = MakeQueue(2);
  const ReadRequest requests[] = {{file_->direct_fd(), kPage, 0, memory(), 3}};
  std::vector<ReadCompletion> done;
  for (int round = 0; round < 10; ++round) {
    size_t started = 0;
    ASSERT_TRUE(queue->Submit(requests, &started).ok());
    done.clear();
    while (done.empty()) ASSERT_TRUE(queue->Wait(0, &done).ok());
    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(3u, done[0].tag);
    EXPECT_EQ(0u, queue->in_flight());
  }
}

TEST_P(ReadQueueTest, CompletionsAreAppended) {
  Fill(2 * kPage);
  AllocateMemory(kPage);
  auto queue = MakeQueue(1);
  std::vector<ReadCompletion> done;
  for (uint64_t tag = 0; tag < 3; ++tag) {
    size_t started = 0;
    const ReadRequest requests[] = {{file_->direct_fd(), kPage, 0, memory(), tag}};
    ASSERT_TRUE(queue->Submit(requests, &started).ok());
    ASSERT_TRUE(queue->Wait(1, &done).ok());
    ASSERT_EQ(done.size(), tag + 1);
    EXPECT_EQ(done.back().tag, tag);
  }
}

TEST_P(ReadQueueTest, RefusesADepthOfZero) {
  std::unique_ptr<ReadQueue> queue;
  EXPECT_EQ(Code::kInvalidArgument, ReadQueue::Create(OptionsOf(0, {}), &queue).code());
  EXPECT_EQ(Code::kInvalidArgument, ReadQueue::Create(OptionsOf(65537, {}), &queue).code());
  EXPECT_EQ(queue, nullptr);
}

TEST_P(ReadQueueTest, ReadsBufferedFilesAtAnyAlignment) {
  // A ring that polls for completions cannot read these.
  if (GetParam().iopoll) return;
  Fill(4 * kPage);
  AllocateMemory(3 * kPage);
  auto queue = MakeQueue(2);
  const ReadRequest requests[] = {{file_->fd(), 3 * kPage - 8, 16, memory(), 0},
                                  {file_->fd(), 0, 16, memory(), 1}};
  for (const bool cached : {true, false}) {
    if (!cached) file_->LeavePageCache();
    const auto done = ReadAll(queue.get(), requests);
    EXPECT_EQ(0, done[0].error);
    EXPECT_EQ(3 * kPage - 8, done[0].read_bytes);
    EXPECT_EQ(0, done[1].error) << "nothing was asked for";
    EXPECT_EQ(0u, done[1].read_bytes);
    EXPECT_TRUE(OffsetFile::Holds(memory(), 16, 3 * kPage - 8));
  }
}

std::string NameOf(const ::testing::TestParamInfo<QueueKind>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Kinds, ReadQueueTest, ::testing::ValuesIn(AllQueueKinds()), NameOf);

TEST(ReadQueueCreateTest, RefusesAnUnknownBackEnd) {
  std::unique_ptr<ReadQueue> queue;
  ReadQueueOptions options;
  options.backend = static_cast<IoBackend>(99);
  EXPECT_EQ(Code::kInvalidArgument, ReadQueue::Create(options, &queue).code());
  EXPECT_EQ(queue, nullptr);
}

// No local file system ends a transfer early on demand, so the rule is tested by itself.
TEST(ReadProgressTest, ContinuesFromTheAlignedPlaceBefore) {
  ReadProgress progress;
  EXPECT_FALSE(progress.Advance(5000, 10000));
  EXPECT_EQ(4096u, progress.from_bytes);
  EXPECT_FALSE(progress.Advance(4096, 10000));
  EXPECT_EQ(8192u, progress.from_bytes);
  EXPECT_TRUE(progress.Advance(1808, 10000));
  EXPECT_EQ(10000u, progress.done_bytes);
}

TEST(ReadProgressTest, NothingNewIsTheEnd) {
  ReadProgress progress;
  EXPECT_FALSE(progress.Advance(5000, 10000));
  EXPECT_TRUE(progress.Advance(904, 10000));
  EXPECT_EQ(5000u, progress.done_bytes);
}

}  // namespace
}  // namespace engine_race::io

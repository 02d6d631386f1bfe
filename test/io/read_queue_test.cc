// One suite over every back end of ReadQueue.
#include "engine_race/io/read_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/read_queue_backends.h"

namespace engine_race::io {
namespace {

constexpr uint32_t kPage = 4096;

class ReadQueueTest : public ::testing::TestWithParam<IoBackend> {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "read_queue_XXXXXX").string();
    fd_ = mkostemp(name.data(), O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    path_ = name;
    std::unique_ptr<ReadQueue> probe;
    const Status status = ReadQueue::Create({GetParam(), 1}, &probe);
    if (status.code() == Code::kNotSupported) GTEST_SKIP() << status.ToString();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  void TearDown() override {
    if (direct_fd_ >= 0) close(direct_fd_);
    if (fd_ >= 0) close(fd_);
    unlink(path_.c_str());
  }

  // Every 8-byte word of the file holds its own offset.
  void Fill(uint64_t size_bytes) {
    std::vector<uint64_t> words((size_bytes + 7) / 8);
    for (size_t i = 0; i < words.size(); ++i) words[i] = i * 8;
    ASSERT_EQ(static_cast<ssize_t>(size_bytes), pwrite(fd_, words.data(), size_bytes, 0));
    ASSERT_EQ(0, fsync(fd_));
  }

  // The same file past the page cache, where the file system allows it.
  int DirectFd() {
    if (direct_fd_ < 0) direct_fd_ = open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (direct_fd_ < 0) direct_fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    return direct_fd_;
  }

  std::unique_ptr<ReadQueue> MakeQueue(uint32_t depth) {
    std::unique_ptr<ReadQueue> queue;
    EXPECT_TRUE(ReadQueue::Create({GetParam(), depth}, &queue).ok());
    return queue;
  }

  static void ExpectOffsets(const char* data, uint64_t offset, size_t size_bytes) {
    for (size_t at = 0; at + 8 <= size_bytes; at += 8) {
      uint64_t word;
      std::memcpy(&word, data + at, sizeof(word));
      ASSERT_EQ(offset + at, word);
    }
  }

  int fd_ = -1;
  int direct_fd_ = -1;
  std::string path_;
};

TEST_P(ReadQueueTest, ReadsDirectAndAligned) {
  Fill(64 * kPage);
  Region region;
  ASSERT_TRUE(Region::Allocate(16 * kPage, false, &region).ok());
  auto queue = MakeQueue(4);
  size_t started = 0;
  const ReadRequest requests[] = {
      {DirectFd(), 4 * kPage, 8 * kPage, region.data(), 7},
      {DirectFd(), 8 * kPage, 40 * kPage, region.data() + 4 * kPage, 8},
  };
  ASSERT_TRUE(queue->Submit(requests, &started).ok());
  EXPECT_EQ(2u, started);
  EXPECT_EQ(2u, queue->in_flight());
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(2, &done).ok());
  ASSERT_EQ(2u, done.size());
  EXPECT_EQ(0u, queue->in_flight());
  EXPECT_EQ(15u, done[0].tag + done[1].tag);
  for (const ReadCompletion& completion : done) {
    EXPECT_EQ(0, completion.error);
    EXPECT_EQ(completion.tag == 7 ? 4 * kPage : 8 * kPage, completion.read_bytes);
  }
  ExpectOffsets(region.data(), 8 * kPage, 4 * kPage);
  ExpectOffsets(region.data() + 4 * kPage, 40 * kPage, 8 * kPage);
}

TEST_P(ReadQueueTest, StopsShortOnlyAtTheEndOfTheFile) {
  const uint64_t file_bytes = 3 * kPage + 1000;
  Fill(file_bytes);
  Region region;
  ASSERT_TRUE(Region::Allocate(24 * kPage, false, &region).ok());
  auto queue = MakeQueue(3);
  size_t started = 0;
  const ReadRequest requests[] = {
      {DirectFd(), 8 * kPage, 0, region.data(), 0},
      {DirectFd(), 8 * kPage, 2 * kPage, region.data() + 8 * kPage, 1},
      {DirectFd(), 8 * kPage, 16 * kPage, region.data() + 16 * kPage, 2},
  };
  ASSERT_TRUE(queue->Submit(requests, &started).ok());
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(3, &done).ok());
  ASSERT_EQ(3u, done.size());
  for (const ReadCompletion& completion : done) {
    EXPECT_EQ(0, completion.error);
    const uint64_t expected = completion.tag == 0   ? file_bytes
                              : completion.tag == 1 ? file_bytes - 2 * kPage
                                                    : 0;
    EXPECT_EQ(expected, completion.read_bytes) << completion.tag;
  }
  ExpectOffsets(region.data(), 0, file_bytes);
  ExpectOffsets(region.data() + 8 * kPage, 2 * kPage, file_bytes - 2 * kPage);
}

TEST_P(ReadQueueTest, AnErrorTravelsWithItsRequest) {
  Fill(16 * kPage);
  Region region;
  ASSERT_TRUE(Region::Allocate(16 * kPage, false, &region).ok());
  const int closed = dup(fd_);
  ASSERT_GE(closed, 0);
  close(closed);
  const int write_only = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(write_only, 0);
  auto queue = MakeQueue(8);
  size_t started = 0;
  const ReadRequest requests[] = {
      {closed, kPage, 0, region.data(), 0},
      {DirectFd(), kPage, kPage, region.data() + kPage, 1},
      {write_only, kPage, 0, region.data() + 2 * kPage, 2},
      {closed, kPage, 0, region.data() + 3 * kPage, 3},
      {DirectFd(), kPage, 4 * kPage, region.data() + 4 * kPage, 4},
  };
  ASSERT_TRUE(queue->Submit(requests, &started).ok());
  EXPECT_EQ(5u, started);
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(5, &done).ok());
  ASSERT_EQ(5u, done.size());
  for (const ReadCompletion& completion : done) {
    const bool good = completion.tag == 1 || completion.tag == 4;
    EXPECT_EQ(good ? 0 : EBADF, completion.error) << completion.tag;
    if (good) {
      EXPECT_EQ(kPage, completion.read_bytes);
    }
  }
  ExpectOffsets(region.data() + kPage, kPage, kPage);
  ExpectOffsets(region.data() + 4 * kPage, 4 * kPage, kPage);
  close(write_only);
}

TEST_P(ReadQueueTest, AMisalignedDirectReadFailsAlone) {
  Fill(16 * kPage);
  Region region;
  ASSERT_TRUE(Region::Allocate(4 * kPage, false, &region).ok());
  if ((fcntl(DirectFd(), F_GETFL) & O_DIRECT) == 0) GTEST_SKIP() << "no O_DIRECT here";
  char probe_buffer[16];
  if (pread(DirectFd(), probe_buffer, 3, 1) >= 0) GTEST_SKIP() << "direct reads of any alignment";
  auto queue = MakeQueue(2);
  size_t started = 0;
  const ReadRequest requests[] = {
      {DirectFd(), 3, 1, region.data() + 5, 0},
      {DirectFd(), kPage, kPage, region.data() + kPage, 1},
  };
  ASSERT_TRUE(queue->Submit(requests, &started).ok());
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(2, &done).ok());
  ASSERT_EQ(2u, done.size());
  for (const ReadCompletion& completion : done) {
    EXPECT_EQ(completion.tag == 0 ? EINVAL : 0, completion.error);
  }
  ExpectOffsets(region.data() + kPage, kPage, kPage);
}

TEST_P(ReadQueueTest, MoreThanTheDepthIsRefusedWhole) {
  Fill(16 * kPage);
  Region region;
  ASSERT_TRUE(Region::Allocate(16 * kPage, false, &region).ok());
  auto queue = MakeQueue(3);
  std::vector<ReadRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back({DirectFd(), kPage, i * kPage, region.data() + i * kPage, i});
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
}

TEST_P(ReadQueueTest, HundredsInFlightAllArriveOnce) {
  const uint32_t pages = 1024;
  const uint32_t depth = 300;
  Fill(uint64_t{pages} * kPage);
  Region region;
  ASSERT_TRUE(Region::Allocate(uint64_t{pages} * kPage, false, &region).ok());
  auto queue = MakeQueue(depth);
  std::map<uint64_t, int> seen;
  uint32_t next = 0;
  std::vector<ReadCompletion> done;
  while (seen.size() < pages) {
    std::vector<ReadRequest> batch;
    while (next < pages && queue->in_flight() + batch.size() < depth) {
      const uint32_t page = (next * 577) % pages;
      batch.push_back({DirectFd(), kPage, uint64_t{page} * kPage,
                       region.data() + uint64_t{page} * kPage, page});
      ++next;
    }
    size_t started = 0;
    ASSERT_TRUE(queue->Submit(batch, &started).ok());
    ASSERT_EQ(batch.size(), started);
    done.clear();
    ASSERT_TRUE(queue->Wait(17, &done).ok());
    ASSERT_FALSE(done.empty());
    for (const ReadCompletion& completion : done) {
      ASSERT_EQ(0, completion.error);
      ASSERT_EQ(kPage, completion.read_bytes);
      ASSERT_EQ(1, ++seen[completion.tag]);
    }
  }
  EXPECT_EQ(0u, queue->in_flight());
  ExpectOffsets(region.data(), 0, uint64_t{pages} * kPage);
}

TEST_P(ReadQueueTest, WaitWithNothingInFlightReturns) {
  auto queue = MakeQueue(2);
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(5, &done).ok());
  ASSERT_TRUE(queue->Wait(0, &done).ok());
  EXPECT_TRUE(done.empty());
}

TEST_P(ReadQueueTest, PollingSeesFinishedReads) {
  Fill(16 * kPage);
  Region region;
  ASSERT_TRUE(Region::Allocate(kPage, false, &region).ok());
  auto queue = MakeQueue(2);
  size_t started = 0;
  const ReadRequest requests[] = {{DirectFd(), kPage, 0, region.data(), 3}};
  ASSERT_TRUE(queue->Submit(requests, &started).ok());
  std::vector<ReadCompletion> done;
  while (done.empty()) ASSERT_TRUE(queue->Wait(0, &done).ok());
  EXPECT_EQ(3u, done[0].tag);
}

TEST_P(ReadQueueTest, TheDestructorWaitsForReadsInFlight) {
  const uint32_t pages = 2048;
  Fill(uint64_t{pages} * kPage);
  for (int round = 0; round < 4; ++round) {
    Region region;
    ASSERT_TRUE(Region::Allocate(uint64_t{pages} * kPage, false, &region).ok());
    {
      auto queue = MakeQueue(128);
      std::vector<ReadRequest> requests;
      for (uint32_t i = 0; i < 128; ++i) {
        requests.push_back({DirectFd(), 16 * kPage, uint64_t{i} * 16 * kPage,
                            region.data() + uint64_t{i} * 16 * kPage, i});
      }
      size_t started = 0;
      ASSERT_TRUE(queue->Submit(requests, &started).ok());
    }
    // Nothing writes here any more: what is cleared stays so.
    std::memset(region.data(), 0, region.size());
    usleep(2000);
    EXPECT_TRUE(std::all_of(region.data(), region.data() + region.size(),
                            [](char byte) { return byte == 0; }));
  }
}

TEST_P(ReadQueueTest, RefusesADepthOfZero) {
  std::unique_ptr<ReadQueue> queue;
  EXPECT_EQ(Code::kInvalidArgument, ReadQueue::Create({GetParam(), 0}, &queue).code());
}

TEST_P(ReadQueueTest, ReadsBufferedFilesAtAnyAlignment) {
  Fill(4 * kPage);
  std::vector<char> buffer(3 * kPage);
  auto queue = MakeQueue(1);
  size_t started = 0;
  const ReadRequest requests[] = {{fd_, 3 * kPage - 8, 16, buffer.data(), 1}};
  ASSERT_TRUE(queue->Submit(requests, &started).ok());
  std::vector<ReadCompletion> done;
  ASSERT_TRUE(queue->Wait(1, &done).ok());
  ASSERT_EQ(1u, done.size());
  EXPECT_EQ(3 * kPage - 8, done[0].read_bytes);
  ExpectOffsets(buffer.data(), 16, 3 * kPage - 8);
}

INSTANTIATE_TEST_SUITE_P(Backends, ReadQueueTest,
                         ::testing::Values(IoBackend::kAuto, IoBackend::kPsync, IoBackend::kLibaio,
                                           IoBackend::kIoUring),
                         [](const auto& info) {
                           switch (info.param) {
                             case IoBackend::kAuto:
                               return "Auto";
                             case IoBackend::kPsync:
                               return "Psync";
                             case IoBackend::kIoUring:
                               return "IoUring";
                             default:
                               return "Libaio";
                           }
                         });

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

// Shared by the tests of read queues: every kind of queue, on files whose content says what a read
// must bring.
//
// Not thread-safe.
#ifndef TEST_IO_READ_QUEUE_TEST_UTIL_H_
#define TEST_IO_READ_QUEUE_TEST_UTIL_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/io/read_queue.h"
#include "test/io/offset_file.h"

namespace engine_race::io {

// A kind of queue.
struct QueueKind {
  const char* name = "";
  IoBackend backend = IoBackend::kAuto;
  bool registered = false;
  bool single_thread = false;
  bool lazy_submit = false;
  bool iopoll = false;
  bool sqpoll = false;
};

inline std::vector<QueueKind> AllQueueKinds() {
  std::vector<QueueKind> kinds = {
      {.name = "Auto"},
      {.name = "Psync", .backend = IoBackend::kPsync},
      {.name = "Libaio", .backend = IoBackend::kLibaio},
      {.name = "IoUring"},
      {.name = "IoUringRegistered", .registered = true},
      {.name = "IoUringSingleThread", .single_thread = true},
      {.name = "IoUringSingleThreadRegistered", .registered = true, .single_thread = true},
      {.name = "IoUringLazy", .lazy_submit = true},
      {.name = "IoUringLazySingleThread", .single_thread = true, .lazy_submit = true},
      {.name = "IoUringIopoll", .iopoll = true},
      {.name = "IoUringIopollSingleThread", .single_thread = true, .iopoll = true},
      {.name = "IoUringSqpoll", .sqpoll = true},
      {.name = "IoUringSqpollRegistered", .registered = true, .sqpoll = true},
  };
  for (QueueKind& kind : kinds) {
    if (std::string(kind.name).starts_with("IoUring")) kind.backend = IoBackend::kIoUring;
  }
  return kinds;
}

// The suite's fixture: with GetParam()'s kind of queue, on files of its own.
class ReadQueueTest : public ::testing::TestWithParam<QueueKind> {
 protected:
  void SetUp() override {
    std::unique_ptr<ReadQueue> queue;
    const Status status = ReadQueue::Create(OptionsOf(1, {}), &queue);
    if (status.code() == Code::kNotSupported) GTEST_SKIP() << status.ToString();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  // Makes the file that the test reads.
  void Fill(uint64_t size_bytes) { file_ = std::make_unique<OffsetFile>(size_bytes); }

  // Zeros to read into.
  void AllocateMemory(uint64_t size_bytes) {
    ASSERT_TRUE(Region::Allocate(size_bytes, false, &memory_).ok());
  }
  char* memory() const { return memory_.data(); }

  // Told of the memory and the file, if both are there by now.
  std::unique_ptr<ReadQueue> MakeQueue(uint32_t depth) {
    std::unique_ptr<ReadQueue> queue;
    const std::span<char> buffers[] = {{memory_.data(), memory_.size()}};
    const Status status =
        ReadQueue::Create(OptionsOf(depth, {buffers, memory_.size() > 0 ? 1u : 0u}), &queue);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return queue;
  }

  ReadQueueOptions OptionsOf(uint32_t depth, std::span<const std::span<char>> buffers) {
    const QueueKind& kind = GetParam();
    ReadQueueOptions options;
    options.backend = kind.backend;
    options.depth = depth;
    options.single_thread = kind.single_thread;
    options.lazy_submit = kind.lazy_submit;
    options.sqpoll = kind.sqpoll;
    // Most file systems and devices cannot: the ring without it then.
    options.iopoll = kind.iopoll && file_ != nullptr && IopollWorks();
    if (kind.registered && file_ != nullptr) {
      files_ = {file_->direct_fd(), file_->fd()};
      options.files = files_;
      options.buffers = buffers;
    }
    return options;
  }

  // Submits and waits for all; by tag, the order of `requests`.
  static std::vector<ReadCompletion> ReadAll(ReadQueue* queue,
                                             std::span<const ReadRequest> requests) {
    size_t started = 0;
    const Status submitted = queue->Submit(requests, &started);
    EXPECT_TRUE(submitted.ok()) << submitted.ToString();
    EXPECT_EQ(started, requests.size());
    EXPECT_EQ(queue->in_flight(), requests.size());
    std::vector<ReadCompletion> done;
    const Status waited = queue->Wait(static_cast<uint32_t>(requests.size()), &done);
    EXPECT_TRUE(waited.ok()) << waited.ToString();
    EXPECT_EQ(queue->in_flight(), 0u);
    std::vector<ReadCompletion> by_tag(requests.size());
    std::vector<int> seen(requests.size());
    for (const ReadCompletion& completion : done) {
      by_tag.at(completion.tag) = completion;
      ++seen.at(completion.tag);
    }
    EXPECT_EQ(seen, std::vector<int>(requests.size(), 1)) << "each read is answered once";
    return by_tag;
  }

  std::unique_ptr<OffsetFile> file_;

 private:
  bool IopollWorks() const {
    File file;
    if (!File::OpenPath(file_->path(), Access::kRead, Caching::kDirect, &file).ok()) {
      return false;
    }
    Options options;
    options.io_backend = IoBackend::kIoUring;
    options.io_uring_iopoll = true;
    ReadBackend chosen;
    return ProbeReadBackend(options, file, &chosen).ok() && chosen.iopoll;
  }

  Region memory_;
  std::vector<int> files_;
};

}  // namespace engine_race::io

#endif  // TEST_IO_READ_QUEUE_TEST_UTIL_H_

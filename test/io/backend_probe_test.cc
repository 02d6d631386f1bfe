// Which back end is taken, whatever the kernel says.
#include "engine_race/io/backend_probe.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/block_device.h"
#include "engine_race/io/read_queue.h"
#include "test/faults/ring_hook.h"
#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race::io {
namespace {

using test::CallKind;
using test::RingHook;
using test::ScopedHook;

class BackendProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok());
    ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kCreate, Caching::kDirect, &file_).ok());
    Region page;
    ASSERT_TRUE(Region::Allocate(4096, false, &page).ok());
    ASSERT_TRUE(file_.Write(page.data(), 4096, 0).ok());
    options_.log = [this](LogLevel level, std::string_view message) {
      ++log_count_;
      level_ = level;
      message_ = message;
    };
  }

  // Under the hook. What it took, as in the log; the error when there is none.
  std::string Probe(IoBackend backend) {
    options_.io_backend = backend;
    log_count_ = 0;
    message_.clear();
    ReadBackend chosen;
    const ScopedHook scope(&hook_);
    const Status status = ProbeReadBackend(options_, file_, &chosen);
    if (!status.ok()) return status.ToString();
    std::string name = BackendName(chosen.backend);
    if (chosen.iopoll) name += " iopoll";
    if (chosen.sqpoll) name += " sqpoll";
    return name;
  }
  // Whether one line was logged, at this level, with all of these words.
  ::testing::AssertionResult Logged(LogLevel level, const std::vector<std::string>& words) const {
    bool good = log_count_ == 1 && level_ == level;
    for (const std::string& word : words) good = good && message_.find(word) != std::string::npos;
    if (good) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << log_count_ << " lines, the last: " << message_;
  }

  test::TempDir dir_;
  UniqueFd dir_fd_;
  File file_;
  Options options_;
  RingHook hook_;
  int log_count_ = 0;
  LogLevel level_ = LogLevel::kInfo;
  std::string message_;
};

TEST_F(BackendProbeTest, AutoTakesIoUringAndReadsByIt) {
  EXPECT_EQ(Probe(IoBackend::kAuto), "io_uring");
  EXPECT_EQ(log_count_, 0) << message_;
  ASSERT_EQ(hook_.submitted_entries.size(), 1u);
  EXPECT_EQ(hook_.submitted_entries[0].len, 4096u);
  EXPECT_EQ(hook_.counts[CallKind::kIoSetup], 0) << "the best comes first";
}

TEST_F(BackendProbeTest, InMemoryAutoTakesLibaio) {
  const std::filesystem::path parent = "/dev/shm";
  struct statfs info;
  if (statfs(parent.c_str(), &info) != 0 || info.f_type != TMPFS_MAGIC) {
    GTEST_SKIP() << "no tmpfs here";
  }
  const test::TempDir dir(parent);
  ASSERT_TRUE(sys::OpenDirectory(dir.path(), false, &dir_fd_).ok());
  ASSERT_TRUE(File::Open(dir_fd_.get(), "f", Access::kCreate, Caching::kDirect, &file_).ok());
  EXPECT_EQ(Probe(IoBackend::kAuto), "libaio");
  EXPECT_EQ(Probe(IoBackend::kIoUring), "io_uring");
  EXPECT_EQ(log_count_, 0) << message_;
  hook_.refused = {{CallKind::kIoSetup, EAGAIN}};
  EXPECT_EQ(Probe(IoBackend::kAuto), "io_uring");
}

TEST_F(BackendProbeTest, LibaioDoesNotReadThroughThePageCache) {
  hook_.refused = {{CallKind::kUringSetup, EPERM}};
  EXPECT_EQ(Probe(IoBackend::kAuto), "libaio");
  options_.page_cache = true;
  EXPECT_EQ(Probe(IoBackend::kAuto), "psync");
  EXPECT_EQ(Probe(IoBackend::kLibaio), "libaio") << "who asks for it gets it";
}

// The node of a device lies in memory, on devtmpfs, the device does not.
TEST_F(BackendProbeTest, ADeviceIsNoFileInMemory) {
  const test::LoopDevice loop(1 << 20);
  if (!loop.valid()) GTEST_SKIP() << "no loop devices here: " << loop.why();
  BlockDevice device;
  ASSERT_TRUE(BlockDevice::Open(loop.path(), /*read_only=*/false, &device).ok());
  ReadBackend chosen;
  ASSERT_TRUE(ProbeReadBackend(options_, device.file, &chosen).ok());
  EXPECT_EQ(IoBackend::kIoUring, chosen.backend);
}

TEST_F(BackendProbeTest, WhatWasAskedForIsTaken) {
  for (const IoBackend backend : {IoBackend::kIoUring, IoBackend::kLibaio, IoBackend::kPsync}) {
    EXPECT_EQ(Probe(backend), BackendName(backend));
    EXPECT_EQ(log_count_, 0) << message_;
  }
}

TEST_F(BackendProbeTest, WithoutIoUringItIsLibaio) {
  for (const int error : {EPERM, ENOSYS, ENOMEM, EMFILE}) {
    hook_.refused = {{CallKind::kUringSetup, error}};
    EXPECT_EQ(Probe(IoBackend::kAuto), "libaio");
    EXPECT_TRUE(Logged(LogLevel::kInfo, {"io_uring does not work", strerror(error), "by libaio"}));
    EXPECT_EQ(Probe(IoBackend::kIoUring), "libaio");
    EXPECT_TRUE(
        Logged(LogLevel::kWarning, {"io_uring does not work", strerror(error), "by libaio"}));
    EXPECT_EQ(Probe(IoBackend::kPsync), "psync");
    EXPECT_EQ(log_count_, 0) << message_;
  }
}

TEST_F(BackendProbeTest, WithoutLibaioItIsIoUring) {
  hook_.refused = {{CallKind::kIoSetup, EAGAIN}};
  EXPECT_EQ(Probe(IoBackend::kAuto), "io_uring");
  EXPECT_EQ(log_count_, 0) << message_;
  // Polling was no part of what was asked for.
  options_.io_uring_iopoll = true;
  EXPECT_EQ(Probe(IoBackend::kLibaio), "io_uring");
  EXPECT_TRUE(Logged(LogLevel::kWarning, {"libaio does not work", "by io_uring"}));
}

TEST_F(BackendProbeTest, WithoutBothItIsPsync) {
  hook_.refused = {{CallKind::kUringSetup, EPERM}, {CallKind::kIoSetup, ENOSYS}};
  EXPECT_EQ(Probe(IoBackend::kAuto), "psync");
  EXPECT_TRUE(Logged(LogLevel::kInfo, {"io_uring does not", "libaio does not", "by psync"}));
  EXPECT_EQ(Probe(IoBackend::kIoUring), "psync");
  EXPECT_TRUE(Logged(LogLevel::kWarning, {"io_uring does not", "libaio does not", "by psync"}));
  EXPECT_EQ(Probe(IoBackend::kLibaio), "psync");
  EXPECT_TRUE(Logged(LogLevel::kWarning, {"libaio does not", "io_uring does not", "by psync"}));
}

// As a kernel whose rings know no reads.
TEST_F(BackendProbeTest, ARingThatCannotReadIsNotTaken) {
  hook_.on_completion = [](const io_uring&, io_uring_cqe* completion) {
    completion->res = -EINVAL;
  };
  EXPECT_EQ(Probe(IoBackend::kAuto), "libaio");
  hook_.on_completion = nullptr;
  hook_.on_enter = [](int, unsigned queued_count) { return queued_count > 0 ? EPERM : 0; };
  EXPECT_EQ(Probe(IoBackend::kAuto), "libaio");
  EXPECT_TRUE(Logged(LogLevel::kInfo, {strerror(EPERM)}));
}

TEST_F(BackendProbeTest, PollingIsTakenWhereItWorks) {
  hook_.pretended_flags = IORING_SETUP_IOPOLL;
  options_.io_uring_iopoll = true;
  EXPECT_EQ(Probe(IoBackend::kAuto), "io_uring iopoll");
  options_.io_uring_sqpoll = true;
  EXPECT_EQ(Probe(IoBackend::kIoUring), "io_uring iopoll sqpoll");
  EXPECT_EQ(log_count_, 0) << message_;
}

TEST_F(BackendProbeTest, PollingThatFailsItsReadsIsLeftOut) {
  hook_.on_completion = [](const io_uring& ring, io_uring_cqe* completion) {
    if ((ring.flags & IORING_SETUP_IOPOLL) != 0) completion->res = -EOPNOTSUPP;
  };
  options_.io_uring_iopoll = true;
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kIoUring}) {
    EXPECT_EQ(Probe(backend), "io_uring");
    EXPECT_TRUE(
        Logged(LogLevel::kWarning, {"io_uring with iopoll", strerror(EOPNOTSUPP), "by io_uring"}));
  }
  options_.io_uring_sqpoll = true;
  EXPECT_EQ(Probe(IoBackend::kAuto), "io_uring sqpoll") << "the other stays";
  hook_.forbidden_flags = IORING_SETUP_SQPOLL;
  EXPECT_EQ(Probe(IoBackend::kAuto), "io_uring");
  hook_.refused = {{CallKind::kUringSetup, EPERM}};
  EXPECT_EQ(Probe(IoBackend::kAuto), "libaio");
  EXPECT_TRUE(Logged(LogLevel::kWarning, {"by libaio"}));
}

// Whatever this machine can do: what the probe takes reads.
TEST_F(BackendProbeTest, WhatIsTakenReads) {
  for (const bool iopoll : {false, true}) {
    for (const bool sqpoll : {false, true}) {
      options_.io_uring_iopoll = iopoll;
      options_.io_uring_sqpoll = sqpoll;
      ReadBackend chosen;
      options_.io_backend = IoBackend::kIoUring;
      ASSERT_TRUE(ProbeReadBackend(options_, file_, &chosen).ok());
      ReadQueueOptions options;
      options.backend = chosen.backend;
      options.iopoll = chosen.iopoll;
      options.sqpoll = chosen.sqpoll;
      std::unique_ptr<ReadQueue> queue;
      ASSERT_TRUE(ReadQueue::Create(options, &queue).ok());
      Region page;
      ASSERT_TRUE(Region::Allocate(4096, false, &page).ok());
      std::memset(page.data(), 1, 4096);
      const ReadRequest requests[] = {{file_.fd(), 4096, 0, page.data(), 0}};
      size_t started = 0;
      std::vector<ReadCompletion> done;
      ASSERT_TRUE(queue->Submit(requests, &started).ok());
      ASSERT_TRUE(queue->Wait(1, &done).ok());
      ASSERT_EQ(done.size(), 1u);
      EXPECT_EQ(done[0].error, 0);
      EXPECT_EQ(page.data()[4095], 0);
    }
  }
}

TEST_F(BackendProbeTest, AFileThatNobodyCanReadIsAnError) {
  hook_.refused = {
      {CallKind::kUringSetup, EPERM}, {CallKind::kIoSubmit, EIO}, {CallKind::kPread, EIO}};
  for (const IoBackend backend : {IoBackend::kAuto, IoBackend::kIoUring, IoBackend::kPsync}) {
    EXPECT_EQ(Probe(backend), "kIOError: read f: Input/output error");
    EXPECT_EQ(log_count_, 0) << message_;
  }
}

TEST(BackendNameTest, EveryBackEndHasOne) {
  EXPECT_STREQ(BackendName(IoBackend::kAuto), "auto");
  EXPECT_STREQ(BackendName(IoBackend::kPsync), "psync");
  EXPECT_STREQ(BackendName(IoBackend::kLibaio), "libaio");
  EXPECT_STREQ(BackendName(IoBackend::kIoUring), "io_uring");
}

}  // namespace
}  // namespace engine_race::io

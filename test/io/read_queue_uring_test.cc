// io_uring under a kernel that refuses, fails and does half: no request is lost, none answered for
// another, and none answered well that was not read.
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "test/faults/ring_hook.h"
#include "test/io/read_queue_test_util.h"

namespace engine_race::io {
namespace {

using test::CallKind;
using test::RingHook;
using test::ScopedHook;
using test::SystemCall;

constexpr uint32_t kRingReads = 5;
constexpr uint32_t kRingReadBytes = 4 * kPage;
constexpr uint32_t kCooperative = IORING_SETUP_COOP_TASKRUN;
constexpr uint32_t kOneThread = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;

class UringTest : public ::testing::Test {
 protected:
  UringTest() : file_(kRingReads * kRingReadBytes), scope_(&hook_) {
    EXPECT_TRUE(Region::Allocate(kRingReads * kRingReadBytes, false, &memory_).ok());
    buffer_ = {memory_.data(), memory_.size()};
    fds_ = {file_.direct_fd()};
    options_.backend = IoBackend::kIoUring;
    options_.depth = kRingReads;
    for (uint32_t i = 0; i < kRingReads; ++i) {
      requests_[i] = {file_.direct_fd(), kRingReadBytes, i * kRingReadBytes,
                      memory_.data() + i * kRingReadBytes, i};
    }
  }

  void Register() {
    options_.buffers = {&buffer_, 1};
    options_.files = fds_;
  }

  void MakeQueue() {
    const Status status = ReadQueue::Create(options_, &queue_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_STREQ(queue_->name(), "io_uring");
  }

  // Reads everything; each error by request. What came without one must be right.
  std::array<int, kRingReads> ReadAll() {
    std::memset(memory_.data(), 0xee, memory_.size());
    size_t started = 0;
    EXPECT_TRUE(queue_->Submit(requests_, &started).ok());
    EXPECT_EQ(started, kRingReads);
    std::vector<ReadCompletion> done;
    EXPECT_TRUE(queue_->Wait(kRingReads, &done).ok());
    EXPECT_EQ(done.size(), kRingReads);
    EXPECT_EQ(queue_->in_flight(), 0u);
    std::array<int, kRingReads> errors;
    errors.fill(-1);
    for (const ReadCompletion& completion : done) {
      const uint64_t at = completion.tag * kRingReadBytes;
      errors.at(completion.tag) = completion.error;
      if (completion.error != 0) continue;
      EXPECT_EQ(completion.read_bytes, kRingReadBytes);
      EXPECT_TRUE(OffsetFile::Holds(memory_.data() + at, at, kRingReadBytes)) << completion.tag;
    }
    return errors;
  }

  static constexpr std::array<int, kRingReads> kNoErrors = {};

  OffsetFile file_;
  Region memory_;
  std::span<char> buffer_;
  std::vector<int> fds_;
  std::array<ReadRequest, kRingReads> requests_;
  ReadQueueOptions options_;
  RingHook hook_;
  const ScopedHook scope_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_F(UringTest, CreateTakesTheNextBackEnd) {
  options_.backend = IoBackend::kAuto;
  ASSERT_TRUE(ReadQueue::Create(options_, &queue_).ok());
  EXPECT_STREQ(queue_->name(), "io_uring");
  hook_.refused = {{CallKind::kUringSetup, EPERM}};
  ASSERT_TRUE(ReadQueue::Create(options_, &queue_).ok());
  EXPECT_STREQ(queue_->name(), "libaio");
  EXPECT_EQ(ReadAll(), kNoErrors);
  hook_.refused[CallKind::kIoSetup] = EAGAIN;
  ASSERT_TRUE(ReadQueue::Create(options_, &queue_).ok());
  EXPECT_STREQ(queue_->name(), "psync");
  EXPECT_EQ(ReadAll(), kNoErrors);
}

TEST_F(UringTest, ARefusedRingSaysWhy) {
  for (const int error : {EPERM, ENOSYS, ENOMEM, EMFILE, EINVAL}) {
    hook_.refused = {{CallKind::kUringSetup, error}};
    const Status status = ReadQueue::Create(options_, &queue_);
    const Code expected = error == ENOMEM   ? Code::kOutOfMemory
                          : error == EMFILE ? Code::kIOError
                                            : Code::kNotSupported;
    EXPECT_EQ(status.code(), expected);
    EXPECT_NE(status.message().find(strerror(error)), std::string::npos) << status.ToString();
    EXPECT_EQ(queue_, nullptr);
  }
}

TEST_F(UringTest, FlagsThatTheKernelDoesNotKnowAreLeftOut) {
  for (const bool single_thread : {false, true}) {
    options_.single_thread = single_thread;
    for (const uint32_t unknown : {0u, kOneThread, kOneThread | kCooperative}) {
      hook_.unknown_flags = unknown;
      MakeQueue();
      const uint32_t best = single_thread ? kOneThread : kCooperative;
      const uint32_t expected = (best & unknown) == 0           ? best
                                : (kCooperative & unknown) == 0 ? kCooperative
                                                                : 0;
      EXPECT_EQ(hook_.made_flags.back() & (kOneThread | kCooperative), expected);
      EXPECT_EQ(ReadAll(), kNoErrors);
    }
  }
}

TEST_F(UringTest, AQueueOfOneThreadStaysThere) {
  options_.single_thread = true;
  MakeQueue();
  EXPECT_EQ(ReadAll(), kNoErrors);
  if ((hook_.made_flags.back() & kOneThread) == 0) GTEST_SKIP() << "the kernel knows no such ring";
  size_t started = 0;
  ASSERT_TRUE(queue_->Submit(std::span(requests_).first(1), &started).ok());
  std::vector<ReadCompletion> done;
  std::thread([this, &done] {
    size_t started_here = 0;
    EXPECT_TRUE(queue_->Submit(std::span(requests_).subspan(1, 2), &started_here).ok());
    // The two fail at once. The read of the right thread may have ended by itself; else it stays
    // until that comes back.
    for (int waits = 0; waits < 2; ++waits) {
      const Status status = queue_->Wait(3, &done);
      EXPECT_EQ(done.size(), 3 - queue_->in_flight());
      EXPECT_GE(done.size(), 2u);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
      }
    }
  }).join();
  ASSERT_TRUE(queue_->Wait(1, &done).ok());
  ASSERT_EQ(done.size(), 3u);
  for (const ReadCompletion& completion : done) {
    EXPECT_EQ(completion.error, completion.tag == 0 ? 0 : EEXIST);
  }
  EXPECT_EQ(ReadAll(), kNoErrors);
}

TEST_F(UringTest, RegisteredMemoryAndFilesAreUsed) {
  Register();
  MakeQueue();
  EXPECT_EQ(ReadAll(), kNoErrors);
  ASSERT_EQ(hook_.submitted_entries.size(), kRingReads);
  for (const io_uring_sqe& entry : hook_.submitted_entries) {
    EXPECT_EQ(entry.opcode, IORING_OP_READ_FIXED);
    EXPECT_EQ(entry.flags & IOSQE_FIXED_FILE, IOSQE_FIXED_FILE);
    EXPECT_EQ(entry.fd, 0);
  }
}

TEST_F(UringTest, OnlyWhatIsRegisteredIsReadAsSuch) {
  Register();
  // All but the last page.
  buffer_ = buffer_.first(buffer_.size() - kPage);
  for (ReadRequest& request : requests_) request.fd = file_.fd();
  MakeQueue();
  EXPECT_EQ(ReadAll(), kNoErrors);
  ASSERT_EQ(hook_.submitted_entries.size(), kRingReads);
  for (uint32_t i = 0; i < kRingReads; ++i) {
    const io_uring_sqe& entry = hook_.submitted_entries[i];
    EXPECT_EQ(entry.opcode, i + 1 < kRingReads ? IORING_OP_READ_FIXED : IORING_OP_READ) << i;
    EXPECT_EQ(entry.fd, file_.fd());
    EXPECT_EQ(entry.flags & IOSQE_FIXED_FILE, 0);
  }
}

TEST_F(UringTest, RefusedRegistrationIsDoneWithout) {
  Register();
  for (const int error : {ENOMEM, EOPNOTSUPP, EMFILE}) {
    hook_.refused = {{CallKind::kUringRegister, error}};
    hook_.submitted_entries.clear();
    MakeQueue();
    EXPECT_EQ(ReadAll(), kNoErrors);
    ASSERT_EQ(hook_.submitted_entries.size(), kRingReads);
    for (const io_uring_sqe& entry : hook_.submitted_entries) {
      EXPECT_EQ(entry.opcode, IORING_OP_READ);
      EXPECT_EQ(entry.flags & IOSQE_FIXED_FILE, 0);
    }
  }
}

// A device is free for others, a store for its next opening, when the queue is gone.
TEST_F(UringTest, FilesAreLetGoWithTheQueue) {
  for (int round = 0; round < 20; ++round) {
    options_.single_thread = round % 2 == 0;
    const int fd = open(file_.path().c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0) << strerror(errno);
    fds_ = {fd};
    Register();
    for (ReadRequest& request : requests_) request.fd = fd;
    MakeQueue();
    EXPECT_EQ(ReadAll(), kNoErrors);
    queue_.reset();
    close(fd);
  }
}

TEST_F(UringTest, ACallThatFailsIsAboutTheQueueAndLosesNothing) {
  for (const bool lazy : {false, true}) {
    options_.lazy_submit = lazy;
    for (const int error : {EPERM, EACCES, ENOSYS, EIO, EINVAL}) {
      MakeQueue();
      hook_.counts.clear();
      hook_.refused = {{CallKind::kUringEnter, error}};
      size_t started = 0;
      ASSERT_TRUE(queue_->Submit(requests_, &started).ok());
      EXPECT_EQ(started, kRingReads);
      std::vector<ReadCompletion> done;
      const Status status = queue_->Wait(kRingReads, &done);
      const bool is_refusal = error != EIO && error != EINVAL;
      EXPECT_EQ(status.code(), is_refusal ? Code::kNotSupported : Code::kIOError);
      EXPECT_NE(status.message().find(strerror(error)), std::string::npos) << status.ToString();
      EXPECT_TRUE(done.empty());
      EXPECT_EQ(queue_->in_flight(), kRingReads);
      hook_.refused.clear();
      ASSERT_TRUE(queue_->Wait(kRingReads, &done).ok());
      EXPECT_EQ(done.size(), kRingReads);
      EXPECT_TRUE(OffsetFile::Holds(memory_.data(), 0, kRingReads * kRingReadBytes));
      EXPECT_EQ(hook_.counts[CallKind::kPread], 0);
    }
  }
}

TEST_F(UringTest, AKernelThatIsShortOfSomethingIsHelpedByBlockingReads) {
  MakeQueue();
  for (const int error : {EAGAIN, EBUSY, ENOMEM}) {
    hook_.counts.clear();
    hook_.on_enter = [error](int, unsigned queued_count) { return queued_count > 2 ? error : 0; };
    EXPECT_EQ(ReadAll(), kNoErrors);
    EXPECT_EQ(hook_.counts[CallKind::kPread], kRingReads - 2);
  }
}

TEST_F(UringTest, SignalsOnlyInterrupt) {
  for (const bool lazy : {false, true}) {
    options_.lazy_submit = lazy;
    MakeQueue();
    hook_.counts.clear();
    hook_.on_enter = [](int call, unsigned) { return call % 3 != 0 ? EINTR : 0; };
    EXPECT_EQ(ReadAll(), kNoErrors);
    EXPECT_EQ(hook_.counts[CallKind::kPread], 0);
  }
}

// The kernel takes one entry a call.
TEST_F(UringTest, APartialSubmitGoesOn) {
  class OneByOne : public RingHook {
   public:
    long OnCall(SystemCall* call) override {
      if (call->kind != CallKind::kUringEnter) return RingHook::OnCall(call);
      io_uring_sq& queue = call->ring->sq;
      const unsigned tail = queue.sqe_tail;
      const unsigned queued_count = io_uring_sq_ready(call->ring);
      if (queued_count > 1) {
        call->min_count = 0;
        queue.sqe_tail = tail - queued_count + 1;
      }
      const long result = RingHook::OnCall(call);
      queue.sqe_tail = tail;
      return result;
    }
  };
  OneByOne hook;
  const ScopedHook scope(&hook);
  for (const bool lazy : {false, true}) {
    options_.lazy_submit = lazy;
    MakeQueue();
    hook.submitted_entries.clear();
    size_t started = 0;
    ASSERT_TRUE(queue_->Submit(requests_, &started).ok());
    EXPECT_EQ(hook.submitted_entries.size(), lazy ? 0 : kRingReads);
    std::vector<ReadCompletion> done;
    ASSERT_TRUE(queue_->Wait(0, &done).ok());
    EXPECT_EQ(hook.submitted_entries.size(), kRingReads) << "a poll starts them at the latest";
    ASSERT_TRUE(queue_->Wait(kRingReads, &done).ok());
    EXPECT_EQ(done.size(), kRingReads);
    EXPECT_TRUE(OffsetFile::Holds(memory_.data(), 0, kRingReads * kRingReadBytes));
    EXPECT_GE(hook.counts[CallKind::kUringEnter], static_cast<int>(kRingReads));
  }
}

TEST_F(UringTest, AWaitThatFailsLosesNothing) {
  MakeQueue();
  size_t started = 0;
  ASSERT_TRUE(queue_->Submit(requests_, &started).ok());
  // Completions must wait in the kernel's ring meanwhile.
  hook_.refused = {{CallKind::kUringEnter, EIO}};
  std::vector<ReadCompletion> done;
  const Status status = queue_->Wait(kRingReads, &done);
  EXPECT_TRUE(status.ok() || status.code() == Code::kIOError);
  EXPECT_EQ(queue_->in_flight(), kRingReads - done.size());
  hook_.refused.clear();
  ASSERT_TRUE(queue_->Wait(kRingReads, &done).ok());
  EXPECT_EQ(done.size(), kRingReads);
  EXPECT_TRUE(OffsetFile::Holds(memory_.data(), 0, kRingReads * kRingReadBytes));
}

TEST_F(UringTest, AnErrorOfACompletionReachesItsRequest) {
  MakeQueue();
  int count = 0;
  hook_.on_completion = [&count](const io_uring&, io_uring_cqe* completion) {
    if (++count == 3) completion->res = -EIO;
  };
  const std::array<int, kRingReads> errors = ReadAll();
  EXPECT_EQ(std::count(errors.begin(), errors.end(), 0), kRingReads - 1);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), EIO), 1);
  EXPECT_EQ(ReadAll(), kNoErrors);
}

TEST_F(UringTest, ReadsThatWereGivenUpAreMadeAgain) {
  MakeQueue();
  for (const int error : {EAGAIN, EINTR, ECANCELED, EFAULT}) {
    hook_.counts.clear();
    // What the kernel has read is not there either.
    hook_.on_completion = [this, error](const io_uring&, io_uring_cqe* completion) {
      std::memset(memory_.data(), 0xee, memory_.size());
      completion->res = -error;
    };
    size_t started = 0;
    ASSERT_TRUE(queue_->Submit(std::span(requests_).first(1), &started).ok());
    std::vector<ReadCompletion> done;
    ASSERT_TRUE(queue_->Wait(1, &done).ok());
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].error, 0);
    EXPECT_TRUE(OffsetFile::Holds(memory_.data(), 0, kRingReadBytes));
    EXPECT_EQ(hook_.counts[CallKind::kPread], 1);
  }
}

TEST_F(UringTest, ShortTransfersGoOn) {
  for (const bool registered : {false, true}) {
    if (registered) Register();
    MakeQueue();
    hook_.submitted_entries.clear();
    hook_.on_completion = [](const io_uring&, io_uring_cqe* completion) {
      completion->res = std::min(completion->res, static_cast<int32_t>(kPage + 512));
    };
    EXPECT_EQ(ReadAll(), kNoErrors);
    EXPECT_EQ(hook_.submitted_entries.size(), kRingReads * kRingReadBytes / kPage);
    for (const io_uring_sqe& entry : hook_.submitted_entries) {
      EXPECT_EQ(entry.off % kPage, 0u);
      EXPECT_EQ(entry.opcode, registered ? IORING_OP_READ_FIXED : IORING_OP_READ);
    }
  }
}

TEST_F(UringTest, LazySubmitSavesACall) {
  for (const bool lazy : {false, true}) {
    options_.lazy_submit = lazy;
    MakeQueue();
    hook_.counts.clear();
    size_t started = 0;
    ASSERT_TRUE(queue_->Submit(std::span(requests_).first(1), &started).ok());
    EXPECT_EQ(hook_.counts[CallKind::kUringEnter], lazy ? 0 : 1);
    std::vector<ReadCompletion> done;
    ASSERT_TRUE(queue_->Wait(1, &done).ok());
    EXPECT_EQ(done.size(), 1u);
    EXPECT_LE(hook_.counts[CallKind::kUringEnter], lazy ? 1 : 2);
  }
}

}  // namespace
}  // namespace engine_race::io

#include "engine_race/io/piece_writer.h"

#include <gtest/gtest.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "test/faults/call_watch.h"
#include "test/faults/dying_child.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::io {
namespace {

using test::CallKind;
using test::Refuse;
using test::SystemCall;

// Counts calls by kind. Answers `outcome` in place of the kernel for the kind `faulty`.
class FaultyCalls : public test::SystemCallHook {
 public:
  using Outcome = long (*)(SystemCall* call);

  FaultyCalls() = default;
  FaultyCalls(CallKind faulty, Outcome outcome) : faulty_kind_(faulty), outcome_(outcome) {}

  bool HandlesSubmittedWrites() const override { return true; }
  long OnCall(SystemCall* call) override {
    counts_[static_cast<size_t>(call->kind)].fetch_add(1);
    return outcome_ != nullptr && call->kind == faulty_kind_ ? outcome_(call) : call->Proceed();
  }
  int count(CallKind kind) const { return counts_[static_cast<size_t>(kind)].load(); }

 private:
  const CallKind faulty_kind_ = CallKind::kPread;
  const Outcome outcome_ = nullptr;
  std::array<std::atomic<int>, test::kCallKindCount> counts_{};
};

// A direct file, and pages with different contents.
class PieceWriterTest : public testing::Test {
 protected:
  static constexpr uint64_t kPageCount = 600;

  void SetUp() override {
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok());
    ASSERT_TRUE(
        File::Open(dir_fd_.get(), "pieces", Access::kCreate, Caching::kDirect, &file_).ok());
    aio_context_t context = 0;
    if (!file_.direct() || ::syscall(SYS_io_setup, 1, &context) != 0) {
      GTEST_SKIP() << "no direct files, or no native asynchronous I/O";
    }
    ::syscall(SYS_io_destroy, context);
    ASSERT_TRUE(Region::Allocate(kPageCount * kIoAlignment, false, &data_).ok());
    for (uint64_t i = 0; i < kPageCount; ++i) {
      std::memset(data_.data() + i * kIoAlignment, static_cast<int>(1 + i % 250), kIoAlignment);
    }
  }
  // Pages [begin, end) in pieces of one to three pages, with gaps of one page between them in the
  // file. No piece reaches past `end`.
  std::vector<WriteRequest> Pieces(uint64_t begin, uint64_t end) const {
    std::vector<WriteRequest> requests;
    uint64_t slot = 2 * begin;
    for (uint64_t page = begin; page < end;) {
      const uint64_t count = std::min(1 + page % 3, end - page);
      requests.push_back(
          {&file_, data_.data() + page * kIoAlignment, count * kIoAlignment, slot * kIoAlignment});
      slot += count + 1;
      page += count;
    }
    return requests;
  }
  Status Init(PieceWriter* writer, bool asynchronous = true) const {
    const File* const file = &file_;
    return writer->Init({&file, 1}, asynchronous);
  }
  void ExpectWritten(const std::vector<WriteRequest>& requests) const {
    Region read;
    ASSERT_TRUE(Region::Allocate(3 * kIoAlignment, false, &read).ok());
    for (const WriteRequest& request : requests) {
      ASSERT_TRUE(file_.Read(read.data(), request.size_bytes, request.offset).ok());
      ASSERT_EQ(std::memcmp(read.data(), request.data, request.size_bytes), 0) << request.offset;
    }
  }

  test::TempDir dir_;
  UniqueFd dir_fd_;
  File file_;
  Region data_;
};

TEST_F(PieceWriterTest, PiecesAreWrittenAtOnce) {
  const std::vector<WriteRequest> requests = Pieces(0, kPageCount);
  ASSERT_GT(requests.size(), 128u);
  FaultyCalls calls;
  const test::ScopedHook hook(&calls);
  {
    PieceWriter writer;
    ASSERT_TRUE(Init(&writer).ok());
    ASSERT_TRUE(writer.Write(requests).ok());
  }
  ExpectWritten(requests);
  EXPECT_EQ(calls.count(CallKind::kIoSetup), 1);
  EXPECT_GE(calls.count(CallKind::kIoSubmit), 3);
  EXPECT_EQ(calls.count(CallKind::kPwrite), 0);
}

TEST_F(PieceWriterTest, OnePieceNeedsNoContext) {
  const std::vector<WriteRequest> requests = Pieces(0, 1);
  ASSERT_EQ(requests.size(), 1u);
  FaultyCalls calls;
  const test::ScopedHook hook(&calls);
  PieceWriter writer;
  ASSERT_TRUE(Init(&writer).ok());
  ASSERT_TRUE(writer.Write(requests).ok());
  ASSERT_TRUE(writer.Write({}).ok());
  ExpectWritten(requests);
  EXPECT_EQ(calls.count(CallKind::kIoSetup), 0);
  EXPECT_EQ(calls.count(CallKind::kPwrite), 1);
}

// `outcome` replaces calls of `kind`.
struct CallFault {
  const char* name = "";
  CallKind kind = CallKind::kPread;
  FaultyCalls::Outcome outcome = nullptr;
};

class FaultyPieceWriterTest : public PieceWriterTest,
                              public testing::WithParamInterface<CallFault> {};

// Every piece is written, however its request ends. The second call runs after the faults of the
// first.
TEST_P(FaultyPieceWriterTest, WhatIsNotWrittenAtOnceIsWrittenAfterwards) {
  FaultyCalls calls(GetParam().kind, GetParam().outcome);
  const test::ScopedHook hook(&calls);
  PieceWriter writer;
  ASSERT_TRUE(Init(&writer).ok());
  for (const uint64_t begin : {uint64_t{0}, kPageCount / 2}) {
    const std::vector<WriteRequest> requests = Pieces(begin, begin + kPageCount / 2);
    ASSERT_TRUE(writer.Write(requests).ok());
    ExpectWritten(requests);
  }
  EXPECT_GT(calls.count(GetParam().kind), 0);
  EXPECT_GT(calls.count(CallKind::kPwrite), 0);
}

constexpr CallFault kCallFaults[] = {
    {"NoContext", CallKind::kIoSetup, [](SystemCall*) { return Refuse(EAGAIN); }},
    {"NoSubmit", CallKind::kIoSubmit, [](SystemCall*) { return Refuse(ENOSYS); }},
    {"FewSubmitted", CallKind::kIoSubmit,
     [](SystemCall* call) {
       static std::atomic<int> turn{0};
       if (turn.fetch_add(1) % 2 == 1) return Refuse(EAGAIN);
       call->count = std::min(call->count, 3L);
       return call->Proceed();
     }},
    {"NoEvents", CallKind::kIoGetEvents, [](SystemCall*) { return Refuse(EPERM); }},
    {"FullEvents", CallKind::kIoGetEvents,
     [](SystemCall* call) {
       const long got = call->Proceed();
       for (long i = 0; i < got; ++i) call->events[i].res = -ENOSPC;
       return got;
     }},
    {"ShortEvents", CallKind::kIoGetEvents,
     [](SystemCall* call) {
       const long got = call->Proceed();
       for (long i = 0; i < got; ++i) call->events[i].res -= 512;
       return got;
     }},
};

INSTANTIATE_TEST_SUITE_P(Calls, FaultyPieceWriterTest, testing::ValuesIn(kCallFaults),
                         [](const auto& fault) { return fault.param.name; });

TEST_F(PieceWriterTest, AFailedPieceFailsTheCall) {
  const std::vector<WriteRequest> requests = Pieces(0, 60);
  File read_only;
  ASSERT_TRUE(
      File::Open(dir_fd_.get(), "pieces", Access::kRead, Caching::kDirect, &read_only).ok());
  read_only.set_name("a file to read");
  std::vector<WriteRequest> faulty = requests;
  faulty[7].file = &read_only;
  PieceWriter writer;
  ASSERT_TRUE(Init(&writer).ok());
  const Status failed = writer.Write(faulty);
  EXPECT_EQ(failed.code(), Code::kIOError);
  EXPECT_NE(failed.message().find("a file to read"), std::string::npos) << failed.message();
  ASSERT_TRUE(writer.Write(requests).ok());
  ExpectWritten(requests);
}

// A retry might succeed and hide the error of the device.
TEST_F(PieceWriterTest, AFailureOfTheDeviceIsNotTriedAgain) {
  FaultyCalls calls(CallKind::kIoGetEvents, [](SystemCall* call) {
    const long got = call->Proceed();
    for (long i = 0; i < got; ++i) {
      if (call->events[i].data == 5) call->events[i].res = -EIO;
    }
    return got;
  });
  const test::ScopedHook hook(&calls);
  PieceWriter writer;
  ASSERT_TRUE(Init(&writer).ok());
  const Status failed = writer.Write(Pieces(0, 30));
  EXPECT_EQ(failed.code(), Code::kIOError);
  EXPECT_NE(failed.message().find("pieces"), std::string::npos) << failed.message();
  EXPECT_EQ(calls.count(CallKind::kPwrite), 0);
}

TEST_F(PieceWriterTest, PiecesAreWrittenOneAfterTheOtherWhereThatIsAskedFor) {
  FaultyCalls calls;
  const test::ScopedHook hook(&calls);
  PieceWriter writer;
  ASSERT_TRUE(Init(&writer, /*asynchronous=*/false).ok());
  const std::vector<WriteRequest> requests = Pieces(0, 60);
  ASSERT_TRUE(writer.Write(requests).ok());
  ExpectWritten(requests);
  EXPECT_EQ(calls.count(CallKind::kIoSetup), 0);
}

// Without the check, the kernel would kill the process with SIGXFSZ.
TEST_F(PieceWriterTest, ALimitOnFilesIsAFailure) {
  FaultyCalls calls;
  const auto write_beyond_limit = [this] {
    const rlimit limit = {100 * kIoAlignment, 100 * kIoAlignment};
    ::signal(SIGXFSZ, SIG_DFL);
    PieceWriter writer;
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0 && Init(&writer).ok() &&
           writer.Write(Pieces(60, 90)).code() == Code::kFull;
  };
  EXPECT_EQ(test::InChildUnder(&calls, write_beyond_limit), test::End::kFinished);
}

TEST_F(PieceWriterTest, TheLockOfAFileIsAwaited) {
  File other;
  ASSERT_TRUE(
      File::Open(dir_fd_.get(), "pieces", Access::kReadWrite, Caching::kDirect, &other).ok());
  ASSERT_TRUE(sys::LockFile(other.fd(), sys::LockKind::kExclusive).ok());
  std::atomic<int> refused_count{0};
  test::CallWatch calls([&](SystemCall* call) {
    const long result = call->Proceed();
    if (call->kind == CallKind::kFileLock && result != 0 && refused_count.fetch_add(1) == 3) {
      sys::UnlockFile(other.fd());
    }
    return result;
  });
  {
    const test::ScopedHook hook(&calls);
    PieceWriter writer;
    ASSERT_TRUE(Init(&writer).ok());
    EXPECT_EQ(refused_count, 4);
    EXPECT_EQ(sys::LockFile(other.fd(), sys::LockKind::kExclusive).code(), Code::kIOError);
  }
  EXPECT_TRUE(sys::LockFile(other.fd(), sys::LockKind::kExclusive).ok());
}

TEST_F(PieceWriterTest, ALockThatFailsIsNotAwaited) {
  int call_count = 0;
  test::CallWatch calls([&](SystemCall* call) {
    if (call->kind != CallKind::kFileLock) return call->Proceed();
    ++call_count;
    errno = EIO;
    return -1L;
  });
  const test::ScopedHook hook(&calls);
  PieceWriter writer;
  const Status status = Init(&writer);
  EXPECT_EQ(status.code(), Code::kIOError);
  EXPECT_EQ(status.error(), EIO);
  EXPECT_EQ(call_count, 1);
}

TEST_F(PieceWriterTest, ManyThreadsShareAFewContexts) {
  constexpr uint64_t kThreads = 20;
  constexpr uint64_t kPagesEach = kPageCount / kThreads;
  FaultyCalls calls;
  const test::ScopedHook hook(&calls);
  PieceWriter writer;
  ASSERT_TRUE(Init(&writer).ok());
  std::vector<std::thread> threads;
  std::atomic<int> failure_count{0};
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto requests = Pieces(thread * kPagesEach, (thread + 1) * kPagesEach);
      for (int i = 0; i < 20; ++i) failure_count += writer.Write(requests).ok() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failure_count, 0);
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    ExpectWritten(Pieces(thread * kPagesEach, (thread + 1) * kPagesEach));
  }
  EXPECT_GE(calls.count(CallKind::kIoSetup), 1);
  EXPECT_LE(calls.count(CallKind::kIoSetup), 8);
}

}  // namespace
}  // namespace engine_race::io

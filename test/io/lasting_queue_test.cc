// Queues whose calls the system begins to refuse: every read is right all the same, the log says it
// once, and no buffer is used again while the kernel may write into it.
#include "engine_race/io/lasting_queue.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "test/faults/ring_hook.h"
#include "test/index/refused_memory.h"
#include "test/io/read_queue_test_util.h"
#include "test/log_lines.h"

namespace engine_race::io {
namespace {

using test::CallKind;
using test::RingHook;
using test::ScopedHook;
using test::SystemCall;

constexpr uint32_t kReads = 5;
constexpr uint32_t kReadBytes = 4 * kPage;

void Refuse(RingHook* hook, IoBackend backend, int error) {
  if (backend == IoBackend::kIoUring) {
    hook->refused[CallKind::kUringEnter] = error;
  } else {
    hook->refused[CallKind::kIoSubmit] = hook->refused[CallKind::kIoGetEvents] = error;
  }
}

class LastingQueueTest : public ::testing::Test {
 protected:
  LastingQueueTest() : file_(kReads * kReadBytes), failed_(log_.Callback()) {
    EXPECT_TRUE(Region::Allocate(kReads * kReadBytes, false, &memory_).ok());
    for (uint32_t i = 0; i < kReads; ++i) {
      requests_[i] = {file_.direct_fd(), kReadBytes, i * kReadBytes,
                      memory_.data() + i * kReadBytes, 100 + i};
    }
  }

  std::unique_ptr<ReadQueue> Make(IoBackend backend) {
    ReadQueueOptions options;
    options.backend = backend;
    options.depth = kReads;
    std::unique_ptr<ReadQueue> queue;
    EXPECT_TRUE(LastingQueue::Create(options, &failed_, &queue).ok());
    return queue;
  }

  void Submit(ReadQueue* queue, uint32_t first, uint32_t count) {
    size_t started = 0;
    ASSERT_TRUE(queue->Submit(std::span(requests_).subspan(first, count), &started).ok());
    EXPECT_EQ(started, count);
  }
  // Waits for every read. Each must be right.
  void ExpectAllRead(ReadQueue* queue) {
    std::vector<ReadCompletion> done;
    while (queue->in_flight() > 0) ASSERT_TRUE(queue->Wait(1, &done).ok());
    ASSERT_EQ(done.size(), kReads);
    std::array<int, kReads> seen = {};
    for (const ReadCompletion& completion : done) {
      ++seen.at(completion.tag - 100);
      EXPECT_EQ(completion.error, 0);
      EXPECT_EQ(completion.read_bytes, kReadBytes);
    }
    EXPECT_EQ(seen, (std::array<int, kReads>{1, 1, 1, 1, 1}));
    EXPECT_TRUE(OffsetFile::Holds(memory_.data(), 0, kReads * kReadBytes));
  }
  void ReadAll(ReadQueue* queue) {
    std::memset(memory_.data(), 0xee, memory_.size());
    ASSERT_NO_FATAL_FAILURE(Submit(queue, 0, kReads));
    ExpectAllRead(queue);
  }

  OffsetFile file_;
  Region memory_;
  std::array<ReadRequest, kReads> requests_;
  test::LogLines log_;
  FailedBackends failed_;
};

TEST_F(LastingQueueTest, ARefusedBackEndIsReplacedAndTheLogSaysItOnce) {
  for (const int error : {EPERM, EACCES, ENOSYS}) {
    FailedBackends failed(log_.Callback());
    ReadQueueOptions options;
    options.depth = kReads;
    std::unique_ptr<ReadQueue> queue;
    std::unique_ptr<ReadQueue> other;
    ASSERT_TRUE(LastingQueue::Create(options, &failed, &queue).ok());
    ASSERT_TRUE(LastingQueue::Create(options, &failed, &other).ok());
    ASSERT_STREQ(queue->name(), "io_uring");
    log_.Clear();
    RingHook hook;
    const ScopedHook scope(&hook);
    const std::array<std::string, 3> names = {"io_uring", "libaio", "psync"};
    for (const IoBackend backend : {IoBackend::kIoUring, IoBackend::kLibaio}) {
      Refuse(&hook, backend, error);
      const size_t number = backend == IoBackend::kIoUring ? 1 : 2;
      hook.counts.clear();
      ASSERT_NO_FATAL_FAILURE(ReadAll(queue.get()));
      EXPECT_EQ(hook.counts[CallKind::kPread], kReads);
      EXPECT_EQ(queue->name(), names[number]);
      ASSERT_NO_FATAL_FAILURE(ReadAll(other.get()));
      EXPECT_EQ(other->name(), names[number]);
      ASSERT_EQ(log_.lines().size(), number) << log_.text();
      EXPECT_TRUE(log_.Said("the system refuses " + names[number - 1] + ": reads go through " +
                            names[number] + " from now on"))
          << log_.text();
      EXPECT_TRUE(log_.Said(std::strerror(error)));
      EXPECT_EQ(BackendName(failed.InPlaceOf(IoBackend::kAuto)), names[number]);
    }
    hook.counts.clear();
    ASSERT_NO_FATAL_FAILURE(ReadAll(queue.get()));
    EXPECT_EQ(hook.counts[CallKind::kIoSubmit] + hook.counts[CallKind::kUringEnter], 0);
  }
}

// The first reads meet the refusal, and the next ones need another queue. Each request for memory
// on the way is refused once.
TEST_F(LastingQueueTest, RefusedMemoryLosesNoRead) {
  std::vector<ReadCompletion> done;
  done.reserve(2 * kReads);
  bool is_refused = true;
  for (uint64_t passed_count = 0; is_refused; ++passed_count) {
    FailedBackends failed(log_.Callback());
    ReadQueueOptions options;
    options.backend = IoBackend::kIoUring;
    options.depth = kReads;
    std::unique_ptr<ReadQueue> queue;
    ASSERT_TRUE(LastingQueue::Create(options, &failed, &queue).ok());
    RingHook hook;
    const ScopedHook scope(&hook);
    Refuse(&hook, IoBackend::kIoUring, EPERM);
    // What it notes takes no memory later.
    for (size_t kind = 0; kind < test::kCallKindCount; ++kind) {
      hook.counts[static_cast<CallKind>(kind)] = 0;
    }
    hook.setup_flags.reserve(16);
    hook.made_flags.reserve(16);
    hook.submitted_entries.reserve(16);
    std::memset(memory_.data(), 0xee, memory_.size());
    done.clear();
    Status status;
    {
      const test::RefuseMemory refusal(passed_count);
      for (int round = 0; round < 2; ++round) {
        size_t started = 0;
        if (status.ok()) status = queue->Submit(requests_, &started);
        while (status.ok() && queue->in_flight() > 0) status = queue->Wait(1, &done);
      }
      is_refused = refusal.refused();
    }
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(done.size(), 2 * kReads) << passed_count;
    for (const ReadCompletion& completion : done) {
      ASSERT_EQ(completion.error, 0);
      ASSERT_EQ(completion.read_bytes, kReadBytes);
    }
    ASSERT_TRUE(OffsetFile::Holds(memory_.data(), 0, kReads * kReadBytes));
  }
}

TEST_F(LastingQueueTest, TheNextBackEndServesReadsWithoutBlockingOnes) {
  std::unique_ptr<ReadQueue> queue = Make(IoBackend::kIoUring);
  RingHook hook;
  Refuse(&hook, IoBackend::kIoUring, EPERM);
  const ScopedHook scope(&hook);
  ASSERT_NO_FATAL_FAILURE(ReadAll(queue.get()));
  hook.counts.clear();
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(ReadAll(queue.get()));
  EXPECT_EQ(hook.counts[CallKind::kPread], 0);
  EXPECT_GE(hook.counts[CallKind::kIoSubmit], 3);
}

// Some completions are the kernel's still when its calls begin to be refused.
TEST_F(LastingQueueTest, NoReadIsDoneAgainBeforeTheKernelHasEndedIt) {
  class HeldCompletions : public RingHook {
   public:
    long OnCall(SystemCall* call) override {
      if (call->kind == CallKind::kUringReap && held_count > 0) {
        --held_count;
        return 0;
      }
      if (call->kind == CallKind::kPread) {
        EXPECT_EQ(reaped_count, 3) << "a buffer is used again";
      }
      const long result = RingHook::OnCall(call);
      if (call->kind == CallKind::kUringReap) reaped_count += result;
      return result;
    }
    int held_count = 0;
    long reaped_count = 0;
  };
  std::unique_ptr<ReadQueue> queue = Make(IoBackend::kIoUring);
  HeldCompletions hook;
  const ScopedHook scope(&hook);
  ASSERT_NO_FATAL_FAILURE(Submit(queue.get(), 0, 3));
  Refuse(&hook, IoBackend::kIoUring, EPERM);
  hook.held_count = 20;
  ASSERT_NO_FATAL_FAILURE(Submit(queue.get(), 3, 2));
  ASSERT_NO_FATAL_FAILURE(ExpectAllRead(queue.get()));
  EXPECT_EQ(hook.held_count, 0);
  EXPECT_EQ(hook.counts[CallKind::kPread], kReads);
}

TEST_F(LastingQueueTest, AFailureThatPassesReplacesNoBackEnd) {
  std::unique_ptr<ReadQueue> queue = Make(IoBackend::kLibaio);
  for (int i = 0; i < 10; ++i) {
    RingHook hook;
    const ScopedHook scope(&hook);
    ASSERT_NO_FATAL_FAILURE(ReadAll(queue.get()));
    EXPECT_EQ(hook.counts[CallKind::kPread], 0);
    hook.refused[CallKind::kIoGetEvents] = EFAULT;
    ASSERT_NO_FATAL_FAILURE(ReadAll(queue.get()));
    EXPECT_EQ(hook.counts[CallKind::kPread], kReads);
    EXPECT_STREQ(queue->name(), "libaio");
  }
  EXPECT_EQ(log_.lines().size(), 1U) << log_.text();
}

TEST_F(LastingQueueTest, ASubmitThatFailedIsToldThoughTheNextOneWouldNotFail) {
  const std::unique_ptr<ReadQueue> queue = Make(IoBackend::kIoUring);
  if (queue->name() != std::string("io_uring")) GTEST_SKIP() << "no io_uring here";
  RingHook hook;
  const ScopedHook scope(&hook);
  hook.refused[CallKind::kUringEnter] = EIO;
  ASSERT_NO_FATAL_FAILURE(Submit(queue.get(), 0, 3));
  hook.refused.clear();
  ASSERT_NO_FATAL_FAILURE(Submit(queue.get(), 3, 2));
  ASSERT_NO_FATAL_FAILURE(ExpectAllRead(queue.get()));
  EXPECT_EQ(log_.lines().size(), 1U) << log_.text();
}

// Real filters of system calls. They stay for good, so a child installs them.
bool RefuseForGood(std::initializer_list<int> numbers) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  for (const int number : numbers) {
    std::array<sock_filter, 4> code = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program = {static_cast<uint16_t>(code.size()), code.data()};
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return false;
  }
  return true;
}

class FilteredQueueTest : public ReadQueueTest {
 protected:
  static constexpr uint32_t kDepth = 64;
  // Enough bytes for reads to be in flight when the queue is destroyed.
  static constexpr uint32_t kSize = 64 * kPage;

  // 0: right. 2: no filters here.
  int ReadFiltered() {
    std::unique_ptr<ReadQueue> queue = MakeQueue(kDepth);
    if (queue == nullptr) return 1;
    std::vector<ReadRequest> requests;
    for (uint32_t i = 0; i < kDepth; ++i) {
      requests.push_back(
          {file_->direct_fd(), kSize, uint64_t{i} * kSize, memory() + uint64_t{i} * kSize, i});
    }
    if (!RefuseForGood({SYS_io_getevents, SYS_io_destroy})) return 2;
    size_t started = 0;
    if (!queue->Submit(requests, &started).ok() || started != kDepth) return 3;
    // A poll starts lazy reads.
    std::vector<ReadCompletion> done;
    if (GetParam().lazy_submit && !queue->Wait(0, &done).ok()) return 4;
    if (!RefuseForGood({SYS_io_uring_enter, SYS_io_uring_register})) return 2;
    queue.reset();
    // No read was cancelled, because that is refused as well. So all that the kernel had taken is
    // there, unless the ring itself had to be closed.
    const bool is_closed = GetParam().single_thread || GetParam().sqpoll || GetParam().iopoll;
    for (uint32_t i = 0; i < kDepth && GetParam().backend != IoBackend::kPsync && !is_closed; ++i) {
      const uint64_t at = uint64_t{i} * kSize;
      if (!OffsetFile::Holds(memory() + at, at, kSize)) return 5;
    }
    return file_->HasLeftAlone(memory(), uint64_t{kDepth} * kSize) ? 0 : 6;
  }
};

TEST_P(FilteredQueueTest, WaitsForItsReadsWithoutAnyCall) {
  Fill(uint64_t{kDepth} * kSize);
  AllocateMemory(uint64_t{kDepth} * kSize);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(120);  // Ends one that hangs.
    ::_exit(ReadFiltered());
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no filters of system calls here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FilteredQueueTest, ::testing::ValuesIn(AllQueueKinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace engine_race::io

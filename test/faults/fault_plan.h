// Hooks that let system calls on one store fail: the n-th call that can fail with an error, once or
// from then on. Another hook kills the process at the n-th call.
//
// Calls are counted over all kinds that can fail with the error, while the plan is armed. They
// count on files below the store's directory, and where there is no file: anonymous memory, random
// numbers, contexts of libaio, rings. Each read that libaio or io_uring has finished counts as a
// call.
//
// Thread safety: every call, from any thread.
#ifndef TEST_FAULTS_FAULT_PLAN_H_
#define TEST_FAULTS_FAULT_PLAN_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine_race/base/options.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {

enum class Fault : uint8_t {
  kIoError,    // EIO; of a failed pwrite of more than a word the first half is written all the same
  kDiskFull,   // ENOSPC, likewise
  kInterrupt,  // EINTR; when it repeats, every other call of a thread
  kShort,      // half of a transfer, in whole blocks
  kNoMemory,   // ENOMEM
  kNoFiles,    // EMFILE
  kBusy,       // EAGAIN of libaio and io_uring
};
const char* FaultName(Fault fault);

// Whether a call that met the fault may answer that code. `failed_a_flush`: a flush has met it. A
// fault that its reader overcomes (kInterrupt, kShort, kBusy) fits no code at all.
bool CodeFits(Fault fault, bool failed_a_flush, Code code);

enum class Repeat : uint8_t { kOnce, kFromThenOn };

// Notes the requests to rings as they pass, because completions do not describe them.
class RingReads {
 public:
  struct Read {
    int fd = -1;
    char* buffer = nullptr;
  };

  // Of every call, before it is made.
  void Note(const SystemCall& call);
  Read Find(const io_uring* ring, uint64_t user_data) const;

 private:
  mutable std::mutex mutex_;
  std::map<const io_uring*, std::vector<int>> files_;  // registered ones
  std::map<std::pair<const io_uring*, uint64_t>, Read> reads_;
};

class FaultPlan : public SystemCallHook {
 public:
  // Fails call number `nth`, counted from 1, on files below `dir`. Disarmed.
  FaultPlan(std::string dir, Fault fault, uint64_t nth, Repeat repeat);

  // Counts and fails the calls of kLibaio or kIoUring alone; for libaio the kernel has no io_uring.
  // Before Arm.
  void OnlyReadsBy(IoBackend backend) { only_ = backend; }
  void Arm() { armed_.store(true); }
  void Disarm() { armed_.store(false); }

  bool fired() const { return fired_.load(); }
  // The first call that failed; valid once fired.
  CallKind kind() const;
  // Not memory, random numbers, a libaio context or a ring. With a prefix: on a file whose name
  // begins so.
  bool on_file(std::string_view prefix = {}) const;
  // For a test's message: which fault, where.
  std::string ToString() const;
  // Whether one of the calls that failed was a flush: while a checkpoint runs beside the writers it
  // need not have been the first.
  bool failed_a_flush() const { return failed_a_flush_.load(); }

  long OnCall(SystemCall* call) override;

 private:
  bool Concerns(const SystemCall& call) const;
  // Counts a call; true when it is to fail.
  bool Hit(CallKind kind, const std::string& path);
  bool IsBelow(const std::string& path) const { return path.starts_with(dir_); }
  size_t ShortSize(int fd, size_t size) const;
  bool MayBeShort(const SystemCall& call) const;
  long Fail(const SystemCall& call);
  long FailEvents(const SystemCall& call);
  long FailCompletions(const SystemCall& call);
  int error() const;

  const std::string dir_;
  const Fault fault_;
  const uint64_t nth_;
  const Repeat repeat_;
  IoBackend only_ = IoBackend::kAuto;
  RingReads ring_reads_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> fired_{false};
  std::atomic<bool> failed_a_flush_{false};
  std::atomic<uint64_t> call_count_{0};
  mutable std::mutex mutex_;
  // Of the first failure, under mutex_.
  CallKind kind_ = CallKind::kPread;
  std::string path_;
};

// Where a process dies.
enum class DeathMoment : uint8_t {
  kBefore,  // the call is never made
  kTorn,    // a pwrite of several sectors of 512 bytes stops half-way; other calls: as kBefore
  kAfter,   // the call has been made, its caller never hears of it
};

// Kills the process by SIGKILL at call number `nth`, counted from 1, of any kind on files below
// `dir`. For forked children.
class DeathPlan : public SystemCallHook {
 public:
  // Where it tells a parent which call it is: memory that both share.
  using Report = std::atomic<CallKind>;

  // Never: only counts.
  static constexpr uint64_t kNever = ~uint64_t{0};

  DeathPlan(std::string dir, uint64_t nth, DeathMoment moment, Report* report = nullptr)
      : dir_(std::move(dir)), nth_(nth), moment_(moment), report_(report) {}

  uint64_t call_count() const { return call_count_.load(); }
  long OnCall(SystemCall* call) override;

 private:
  const std::string dir_;
  const uint64_t nth_;
  const DeathMoment moment_;
  Report* const report_;
  std::atomic<uint64_t> call_count_{0};
};

// Gives `path`'s content for the machine's boot id, and asks `next`, when there is one, for
// everything.
class BootIdHook : public SystemCallHook {
 public:
  explicit BootIdHook(std::string path, SystemCallHook* next = nullptr)
      : path_(std::move(path)), next_(next) {}

  long OnCall(SystemCall* call) override;

 private:
  const std::string path_;
  SystemCallHook* const next_;
};

}  // namespace engine_race::test

#endif  // TEST_FAULTS_FAULT_PLAN_H_

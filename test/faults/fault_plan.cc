#include "test/faults/fault_plan.h"

#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/log/format.h"

namespace engine_race::test {
namespace {

// What a file system may cut a direct transfer into.
constexpr size_t kBlockBytes = 4096;
constexpr size_t kSectorBytes = 512;

bool IsOfLibaio(CallKind kind) {
  return kind == CallKind::kIoSetup || kind == CallKind::kIoSubmit ||
         kind == CallKind::kIoGetEvents;
}

bool IsOfRing(CallKind kind) { return kind >= CallKind::kUringSetup; }

// Pages of a mapping, made ready for stores; other advice cannot fail in a way that matters.
bool Populates(const SystemCall& call) {
  return call.kind == CallKind::kMadvise && call.flags == MADV_POPULATE_WRITE;
}

bool HasNoFile(const SystemCall& call) {
  if (call.kind == CallKind::kMmap) return (call.flags & MAP_ANONYMOUS) != 0;
  if (Populates(call)) return true;
  return call.kind == CallKind::kGetrandom || call.kind == CallKind::kMembarrier ||
         IsOfLibaio(call.kind) || IsOfRing(call.kind);
}

// Else it only waits, which the kernel refuses nobody.
bool StartsReads(const SystemCall& call) {
  return call.kind == CallKind::kIoSubmit ||
         (call.kind == CallKind::kUringEnter && io_uring_sq_ready(call.ring) > 0);
}

int FileOfEvent(const struct io_event& event) {
  return static_cast<int>(reinterpret_cast<const struct iocb*>(event.obj)->aio_fildes);
}

}  // namespace

bool CodeFits(Fault fault, bool failed_a_flush, Code code) {
  switch (fault) {
    case Fault::kIoError:
      return code == Code::kIOError;
    case Fault::kNoFiles:
      // To writes the shortage may pass.
      return code == Code::kIOError || code == Code::kOutOfMemory;
    case Fault::kDiskFull:
      // What a failed flush has lost is no matter of space any more.
      return code == Code::kFull || (code == Code::kIOError && failed_a_flush);
    case Fault::kNoMemory:
      return code == Code::kOutOfMemory;
    default:
      return false;
  }
}

const char* FaultName(Fault fault) {
  switch (fault) {
    case Fault::kIoError:
      return "EIO";
    case Fault::kDiskFull:
      return "ENOSPC";
    case Fault::kInterrupt:
      return "EINTR";
    case Fault::kShort:
      return "a short transfer";
    case Fault::kNoMemory:
      return "ENOMEM";
    case Fault::kNoFiles:
      return "EMFILE";
    case Fault::kBusy:
      return "EAGAIN";
  }
  return "unknown";
}

FaultPlan::FaultPlan(std::string dir, Fault fault, uint64_t nth, Repeat repeat)
    : dir_(std::move(dir)), fault_(fault), nth_(nth), repeat_(repeat) {}

CallKind FaultPlan::kind() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kind_;
}

bool FaultPlan::on_file(std::string_view prefix) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !path_.empty() && path_.substr(path_.rfind('/') + 1).starts_with(prefix);
}

std::string FaultPlan::ToString() const {
  std::string text = std::string(FaultName(fault_)) + " at call " + std::to_string(nth_) +
                     (repeat_ == Repeat::kOnce ? " once" : " and after");
  if (!fired()) return text + ", never reached";
  const std::lock_guard<std::mutex> lock(mutex_);
  return text + ", first in " + CallName(kind_) + " " + path_.substr(path_.rfind('/') + 1);
}

int FaultPlan::error() const {
  switch (fault_) {
    case Fault::kDiskFull:
      return ENOSPC;
    case Fault::kInterrupt:
      return EINTR;
    case Fault::kNoMemory:
      return ENOMEM;
    case Fault::kNoFiles:
      return EMFILE;
    case Fault::kBusy:
      return EAGAIN;
    case Fault::kIoError:
    case Fault::kShort:
      break;
  }
  return EIO;
}

// Whether the fault is put into such a call: if the kernel answers it with this error at all, and
// if every run of a store's life makes it.
bool FaultPlan::Concerns(const SystemCall& call) const {
  const CallKind kind = call.kind;
  if (only_ == IoBackend::kLibaio && !IsOfLibaio(kind)) return false;
  if (only_ == IoBackend::kIoUring && !IsOfRing(kind)) return false;
  const bool finishes_reads = kind == CallKind::kIoGetEvents || kind == CallKind::kUringReap;
  switch (fault_) {
    case Fault::kIoError:
      if (IsOfLibaio(kind) || IsOfRing(kind)) return StartsReads(call) || finishes_reads;
      if (kind == CallKind::kMadvise) return Populates(call);
      // sys::AwaitPrefetched reads a byte if rows have not come yet, and believes no failure: they
      // are read again.
      if (kind == CallKind::kPread && call.size == 1) return false;
      return kind != CallKind::kMmap && kind != CallKind::kMunmap && kind != CallKind::kClose;
    case Fault::kDiskFull:
      return kind == CallKind::kPwrite || kind == CallKind::kFallocate ||
             kind == CallKind::kFsync || kind == CallKind::kFdatasync ||
             kind == CallKind::kRenameAt || kind == CallKind::kMkdirAt ||
             kind == CallKind::kClone || (kind == CallKind::kOpenAt && (call.flags & O_CREAT) != 0);
    case Fault::kInterrupt:
      return kind == CallKind::kPread || kind == CallKind::kPwrite ||
             kind == CallKind::kFallocate || kind == CallKind::kFtruncate ||
             kind == CallKind::kOpenAt || kind == CallKind::kFileLock || kind == CallKind::kClone ||
             kind == CallKind::kGetrandom || kind == CallKind::kIoSubmit ||
             kind == CallKind::kIoGetEvents || kind == CallKind::kUringEnter;
    case Fault::kShort:
      return finishes_reads ||
             ((kind == CallKind::kPread || kind == CallKind::kPwrite) && MayBeShort(call));
    case Fault::kNoMemory:
      return kind == CallKind::kMmap || kind == CallKind::kIoSetup ||
             kind == CallKind::kUringSetup || kind == CallKind::kUringRegister;
    case Fault::kNoFiles:
      return kind == CallKind::kOpenAt || kind == CallKind::kUringSetup;
    case Fault::kBusy:
      return kind == CallKind::kIoSetup || StartsReads(call) || finishes_reads;
  }
  return false;
}

// How much of a transfer remains when it is cut short; 0 when it cannot be. Direct files transfer
// whole blocks.
size_t FaultPlan::ShortSize(int fd, size_t size) const {
  // The kernel copies a word as one.
  if (size <= sizeof(uint64_t)) return 0;
  if (size > kBlockBytes) return std::max(size / 2 / kBlockBytes * kBlockBytes, kBlockBytes);
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) == 0 ? size / 2 : 0;
}

// A read inside one block that comes short twice at the same place has met the end of the file.
bool FaultPlan::MayBeShort(const SystemCall& call) const {
  if (ShortSize(call.fd, call.size) == 0) return false;
  return call.kind == CallKind::kPwrite || repeat_ == Repeat::kOnce || call.size > kBlockBytes;
}

bool FaultPlan::Hit(CallKind kind, const std::string& path) {
  // An interrupted call is made again, and comes through then.
  static thread_local bool interrupted = false;
  if (fault_ == Fault::kInterrupt && std::exchange(interrupted, false)) return false;
  const uint64_t number = call_count_.fetch_add(1) + 1;
  if (number < nth_ || (number > nth_ && repeat_ == Repeat::kOnce)) return false;
  interrupted = fault_ == Fault::kInterrupt;
  if (kind == CallKind::kFsync || kind == CallKind::kFdatasync) failed_a_flush_.store(true);
  if (number == nth_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    kind_ = kind;
    path_ = path;
    fired_.store(true);
  }
  return true;
}

long FaultPlan::OnCall(SystemCall* call) {
  ring_reads_.Note(*call);
  if (only_ == IoBackend::kLibaio && call->kind == CallKind::kUringSetup) {
    errno = ENOSYS;
    return -1;
  }
  if (!armed_.load() || !Concerns(*call)) return call->Proceed();
  const bool of_events = call->kind == CallKind::kIoGetEvents && fault_ != Fault::kInterrupt;
  if (of_events) return FailEvents(*call);
  if (call->kind == CallKind::kUringReap) return FailCompletions(*call);
  const std::string path = HasNoFile(*call) ? "" : PathOf(*call);
  if (!HasNoFile(*call) && !IsBelow(path)) return call->Proceed();
  if (!Hit(call->kind, path)) return call->Proceed();
  return Fail(*call);
}

long FaultPlan::Fail(const SystemCall& call) {
  const bool moves_data = call.kind == CallKind::kPread || call.kind == CallKind::kPwrite;
  const bool leaves_half = fault_ == Fault::kIoError || fault_ == Fault::kDiskFull;
  if (fault_ == Fault::kShort || (leaves_half && call.kind == CallKind::kPwrite)) {
    SystemCall half = call;
    half.size = ShortSize(call.fd, call.size);
    const long result = moves_data && half.size > 0 ? half.Proceed() : 0;
    if (fault_ == Fault::kShort) return result;
  }
  errno = error();
  return -1;
}

// Reads that libaio has finished.
long FaultPlan::FailEvents(const SystemCall& call) {
  const long got = call.Proceed();
  for (long i = 0; i < got; ++i) {
    struct io_event& event = call.events[i];
    if (event.res < 0) continue;
    const size_t size = static_cast<size_t>(event.res);
    const std::string path = PathOfFd(FileOfEvent(event));
    if (!IsBelow(path) || (fault_ == Fault::kShort && size <= kBlockBytes)) continue;
    if (!Hit(CallKind::kIoGetEvents, path)) continue;
    const auto* const block = reinterpret_cast<const struct iocb*>(event.obj);
    const size_t left = fault_ == Fault::kShort ? ShortSize(FileOfEvent(event), size) : 0;
    // What was not read must not be there by good luck.
    std::memset(reinterpret_cast<char*>(block->aio_buf) + left, 0xee, size - left);
    event.res = fault_ == Fault::kShort ? static_cast<int64_t>(left) : -error();
  }
  return got;
}

// The same of io_uring.
long FaultPlan::FailCompletions(const SystemCall& call) {
  const long got = call.Proceed();
  for (long i = 0; i < got; ++i) {
    struct io_uring_cqe& completion = *call.entries[i];
    const RingReads::Read read = ring_reads_.Find(call.ring, completion.user_data);
    if (completion.res < 0 || read.buffer == nullptr) continue;
    const size_t size = static_cast<size_t>(completion.res);
    const std::string path = PathOfFd(read.fd);
    if (!IsBelow(path) || (fault_ == Fault::kShort && size <= kBlockBytes)) continue;
    if (!Hit(CallKind::kUringReap, path)) continue;
    const size_t left = fault_ == Fault::kShort ? ShortSize(read.fd, size) : 0;
    std::memset(read.buffer + left, 0xee, size - left);
    completion.res = fault_ == Fault::kShort ? static_cast<int32_t>(left) : -error();
  }
  return got;
}

void RingReads::Note(const SystemCall& call) {
  if (!IsOfRing(call.kind)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (call.kind == CallKind::kUringSetup) files_.erase(call.ring);
  if (call.kind == CallKind::kUringRegister && call.files != nullptr) {
    files_[call.ring].assign(call.files, call.files + call.count);
  }
  if (call.kind != CallKind::kUringEnter) return;
  const struct io_uring_sq& queue = call.ring->sq;
  const unsigned queued_count = io_uring_sq_ready(call.ring);
  for (unsigned i = 1; i <= queued_count; ++i) {
    const struct io_uring_sqe& entry = queue.sqes[(queue.sqe_tail - i) & queue.ring_mask];
    const bool is_registered = (entry.flags & IOSQE_FIXED_FILE) != 0;
    reads_[{call.ring, entry.user_data}] = {
        is_registered ? files_[call.ring][static_cast<size_t>(entry.fd)] : entry.fd,
        reinterpret_cast<char*>(entry.addr)};
  }
}

RingReads::Read RingReads::Find(const io_uring* ring, uint64_t user_data) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto read = reads_.find({ring, user_data});
  return read == reads_.end() ? Read() : read->second;
}

long DeathPlan::OnCall(SystemCall* call) {
  if (!HasNoFile(*call) && call->kind != CallKind::kMunmap && !PathOf(*call).starts_with(dir_)) {
    return call->Proceed();
  }
  if (call_count_.fetch_add(1) + 1 != nth_) return call->Proceed();
  if (report_ != nullptr) report_->store(call->kind);
  const size_t torn_size = (call->size / 2 / kSectorBytes + 1) * kSectorBytes;
  if (moment_ == DeathMoment::kTorn && call->kind == CallKind::kPwrite && torn_size < call->size) {
    // Past the middle, not at a block's end. A direct file takes it unless its device's sectors
    // are larger; then nothing is written.
    call->size = torn_size;
    call->Proceed();
  } else if (moment_ == DeathMoment::kAfter) {
    call->Proceed();
  }
  ::kill(::getpid(), SIGKILL);
  // The signal is on its way: nothing more happens in this thread.
  while (true) ::pause();
}

long BootIdHook::OnCall(SystemCall* call) {
  if (call->kind == CallKind::kOpenAt && PathOf(*call) == "/proc/sys/kernel/random/boot_id") {
    call->name = path_.c_str();
  }
  return next_ == nullptr ? call->Proceed() : next_->OnCall(call);
}

}  // namespace engine_race::test

#include "test/faults/system_calls.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <thread>

#include "test/faults/system_calls_dispatch.h"

// The names that the linker's --wrap makes of each call: undefined references to X become
// references to __wrap_X, and __real_X is X itself.
extern "C" {
ssize_t __real_pread(int fd, void* buffer, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void* data, size_t size, off_t offset);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __real_ftruncate(int fd, off_t length);
off_t __real_lseek(int fd, off_t offset, int whence);
int __real_openat(int dir_fd, const char* name, int flags, ...);
int __real_renameat(int from_fd, const char* from, int to_fd, const char* to);
int __real_unlinkat(int dir_fd, const char* name, int flags);
int __real_mkdirat(int dir_fd, const char* name, mode_t mode);
void* __real_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* address, size_t size);
int __real_msync(void* address, size_t size, int flags);
int __real_madvise(void* address, size_t size, int advice);
int __real_fstat(int fd, struct stat* info);
int __real_fstatat(int dir_fd, const char* name, struct stat* info, int flags);
int __real_fstatfs(int fd, struct statfs* info);
int __real_fcntl(int fd, int command, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __real_close(int fd);
ssize_t __real_getrandom(void* buffer, size_t size, unsigned int flags);
long __real_syscall(long number, ...);
}

namespace engine_race::test {
namespace {

std::atomic<SystemCallHook*> installed_hook{nullptr};
// Threads that may be in a hook.
std::atomic<int> inside_count{0};
thread_local bool inside_hook = false;

constexpr std::array<const char*, kCallKindCount> kNames = {
    "pread",      "pwrite",       "fsync",       "fdatasync",      "fallocate",    "ftruncate",
    "lseek",      "openat",       "rename",      "unlinkat",       "mkdirat",      "mmap",
    "munmap",     "msync",        "madvise",     "fstat",          "fstatat",      "fstatfs",
    "fcntl lock", "clone",        "close",       "getrandom",      "membarrier",   "io_setup",
    "io_submit",  "io_getevents", "uring setup", "uring register", "uring enable", "uring enter",
    "uring reap"};

bool SubmitsWrites(const SystemCall& call) {
  return call.kind == CallKind::kIoSubmit && call.count > 0 &&
         call.blocks[0]->aio_lio_opcode == IOCB_CMD_PWRITE;
}

long Ask(SystemCallHook* hook, SystemCall* call) {
  if (SubmitsWrites(*call) && !hook->HandlesSubmittedWrites()) {
    errno = EAGAIN;
    return -1;
  }
  return hook->OnCall(call);
}

}  // namespace

// A hook that is on its way out may still be used by those that counted themselves before.
long Dispatch(SystemCall call) {
  // Relaxed: the usual case without a hook, looked at again below.
  if (inside_hook || installed_hook.load(std::memory_order_relaxed) == nullptr) {
    return call.Proceed();
  }
  // Sequentially consistent, as the exchange in ScopedHook: either the count is seen there, or the
  // former hook is seen here.
  inside_count.fetch_add(1);
  SystemCallHook* const hook = installed_hook.load();
  inside_hook = true;
  const long result = hook == nullptr ? call.Proceed() : Ask(hook, &call);
  inside_hook = false;
  inside_count.fetch_sub(1);
  return result;
}

SystemCall CallOn(CallKind kind, int fd) {
  SystemCall call;
  call.kind = kind;
  call.fd = fd;
  return call;
}

const char* CallName(CallKind kind) { return kNames[static_cast<size_t>(kind)]; }

long SystemCall::Proceed() const {
  switch (kind) {
    case CallKind::kPread:
      return __real_pread(fd, buffer, size, offset);
    case CallKind::kPwrite:
      return __real_pwrite(fd, data, size, offset);
    case CallKind::kFsync:
      return __real_fsync(fd);
    case CallKind::kFdatasync:
      return __real_fdatasync(fd);
    case CallKind::kFallocate:
      return __real_fallocate(fd, flags, offset, length);
    case CallKind::kFtruncate:
      return __real_ftruncate(fd, length);
    case CallKind::kLseek:
      return __real_lseek(fd, offset, flags);
    case CallKind::kOpenAt:
      return __real_openat(fd, name, flags, mode);
    case CallKind::kRenameAt:
      return __real_renameat(fd, name, new_fd, new_name);
    case CallKind::kUnlinkAt:
      return __real_unlinkat(fd, name, flags);
    case CallKind::kMkdirAt:
      return __real_mkdirat(fd, name, mode);
    case CallKind::kMmap:
      return reinterpret_cast<long>(__real_mmap(buffer, size, protection, flags, fd, offset));
    case CallKind::kMunmap:
      return __real_munmap(buffer, size);
    case CallKind::kMsync:
      return __real_msync(buffer, size, flags);
    case CallKind::kMadvise:
      return __real_madvise(buffer, size, flags);
    case CallKind::kFstat:
      return __real_fstat(fd, static_cast<struct stat*>(buffer));
    case CallKind::kFstatAt:
      return __real_fstatat(fd, name, static_cast<struct stat*>(buffer), flags);
    case CallKind::kFstatFs:
      return __real_fstatfs(fd, static_cast<struct statfs*>(buffer));
    case CallKind::kFileLock:
      return __real_fcntl(fd, flags, buffer);
    case CallKind::kClone:
      return __real_ioctl(fd, FICLONE, new_fd);
    case CallKind::kClose:
      return __real_close(fd);
    case CallKind::kGetrandom:
      return __real_getrandom(buffer, size, static_cast<unsigned int>(flags));
    case CallKind::kIoSetup:
      return __real_syscall(SYS_io_setup, count, made);
    case CallKind::kIoSubmit:
      return __real_syscall(SYS_io_submit, context, count, blocks);
    case CallKind::kIoGetEvents:
      return __real_syscall(SYS_io_getevents, context, min_count, count, events, timeout);
    case CallKind::kMembarrier:
      return __real_syscall(SYS_membarrier, flags, 0, 0);
    case CallKind::kUringSetup:
    case CallKind::kUringRegister:
    case CallKind::kUringEnable:
    case CallKind::kUringEnter:
    case CallKind::kUringReap:
      return ProceedWithRing();
  }
  errno = ENOSYS;
  return -1;
}

ScopedHook::ScopedHook(SystemCallHook* hook) : former_(installed_hook.exchange(hook)) {}

ScopedHook::~ScopedHook() {
  installed_hook.exchange(former_);
  while (inside_count.load() != 0) std::this_thread::yield();
}

}  // namespace engine_race::test

using engine_race::test::CallKind;
using engine_race::test::CallOn;
using engine_race::test::Dispatch;
using engine_race::test::SystemCall;

extern "C" {

ssize_t __wrap_pread(int fd, void* buffer, size_t size, off_t offset) {
  SystemCall call = CallOn(CallKind::kPread, fd);
  call.buffer = buffer;
  call.size = size;
  call.offset = offset;
  return Dispatch(call);
}

ssize_t __wrap_pwrite(int fd, const void* data, size_t size, off_t offset) {
  SystemCall call = CallOn(CallKind::kPwrite, fd);
  call.data = data;
  call.size = size;
  call.offset = offset;
  return Dispatch(call);
}

int __wrap_fsync(int fd) { return static_cast<int>(Dispatch(CallOn(CallKind::kFsync, fd))); }

int __wrap_fdatasync(int fd) {
  return static_cast<int>(Dispatch(CallOn(CallKind::kFdatasync, fd)));
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length) {
  SystemCall call = CallOn(CallKind::kFallocate, fd);
  call.flags = mode;
  call.offset = offset;
  call.length = length;
  return static_cast<int>(Dispatch(call));
}

int __wrap_ftruncate(int fd, off_t length) {
  SystemCall call = CallOn(CallKind::kFtruncate, fd);
  call.length = length;
  return static_cast<int>(Dispatch(call));
}

off_t __wrap_lseek(int fd, off_t offset, int whence) {
  SystemCall call = CallOn(CallKind::kLseek, fd);
  call.offset = offset;
  call.flags = whence;
  return Dispatch(call);
}

int __wrap_openat(int dir_fd, const char* name, int flags, ...) {
  SystemCall call = CallOn(CallKind::kOpenAt, dir_fd);
  call.name = name;
  call.flags = flags;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    va_list arguments;
    va_start(arguments, flags);
    call.mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return static_cast<int>(Dispatch(call));
}

int __wrap_renameat(int from_fd, const char* from, int to_fd, const char* to) {
  SystemCall call = CallOn(CallKind::kRenameAt, from_fd);
  call.name = from;
  call.new_fd = to_fd;
  call.new_name = to;
  return static_cast<int>(Dispatch(call));
}

int __wrap_unlinkat(int dir_fd, const char* name, int flags) {
  SystemCall call = CallOn(CallKind::kUnlinkAt, dir_fd);
  call.name = name;
  call.flags = flags;
  return static_cast<int>(Dispatch(call));
}

int __wrap_mkdirat(int dir_fd, const char* name, mode_t mode) {
  SystemCall call = CallOn(CallKind::kMkdirAt, dir_fd);
  call.name = name;
  call.mode = mode;
  return static_cast<int>(Dispatch(call));
}

void* __wrap_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  SystemCall call = CallOn(CallKind::kMmap, fd);
  call.buffer = address;
  call.size = size;
  call.protection = protection;
  call.flags = flags;
  call.offset = offset;
  return reinterpret_cast<void*>(Dispatch(call));
}

int __wrap_munmap(void* address, size_t size) {
  SystemCall call = CallOn(CallKind::kMunmap, -1);
  call.buffer = address;
  call.size = size;
  return static_cast<int>(Dispatch(call));
}

int __wrap_msync(void* address, size_t size, int flags) {
  SystemCall call = CallOn(CallKind::kMsync, -1);
  call.buffer = address;
  call.size = size;
  call.flags = flags;
  return static_cast<int>(Dispatch(call));
}

int __wrap_madvise(void* address, size_t size, int advice) {
  SystemCall call = CallOn(CallKind::kMadvise, -1);
  call.buffer = address;
  call.size = size;
  call.flags = advice;
  return static_cast<int>(Dispatch(call));
}

int __wrap_fstat(int fd, struct stat* info) {
  SystemCall call = CallOn(CallKind::kFstat, fd);
  call.buffer = info;
  return static_cast<int>(Dispatch(call));
}

int __wrap_fstatat(int dir_fd, const char* name, struct stat* info, int flags) {
  SystemCall call = CallOn(CallKind::kFstatAt, dir_fd);
  call.name = name;
  call.buffer = info;
  call.flags = flags;
  return static_cast<int>(Dispatch(call));
}

int __wrap_fstatfs(int fd, struct statfs* info) {
  SystemCall call = CallOn(CallKind::kFstatFs, fd);
  call.buffer = info;
  return static_cast<int>(Dispatch(call));
}

int __wrap_fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  // A pointer or a number, or nothing, which the kernel does not look at then.
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (command != F_OFD_SETLK) return __real_fcntl(fd, command, argument);
  SystemCall call = CallOn(CallKind::kFileLock, fd);
  call.flags = command;
  call.buffer = argument;
  return static_cast<int>(Dispatch(call));
}

int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  // As in fcntl.
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (request != FICLONE) return __real_ioctl(fd, request, argument);
  SystemCall call = CallOn(CallKind::kClone, fd);
  call.new_fd = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  return static_cast<int>(Dispatch(call));
}

int __wrap_close(int fd) { return static_cast<int>(Dispatch(CallOn(CallKind::kClose, fd))); }

ssize_t __wrap_getrandom(void* buffer, size_t size, unsigned int flags) {
  SystemCall call = CallOn(CallKind::kGetrandom, -1);
  call.buffer = buffer;
  call.size = size;
  call.flags = static_cast<int>(flags);
  return Dispatch(call);
}

// libaio's calls and membarrier become SystemCalls; the others (waiting on atomics is among them)
// pass as they are. Six arguments are read whatever the caller gave, which AddressSanitizer must
// not see: the kernel takes those that it knows.
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...) {
  std::array<long, 6> arguments;
  va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  SystemCall call;
  switch (number) {
    case SYS_io_setup:
      call.kind = CallKind::kIoSetup;
      call.count = arguments[0];
      call.made = reinterpret_cast<aio_context_t*>(arguments[1]);
      return Dispatch(call);
    case SYS_io_submit:
      call.kind = CallKind::kIoSubmit;
      call.context = static_cast<aio_context_t>(arguments[0]);
      call.count = arguments[1];
      call.blocks = reinterpret_cast<struct iocb**>(arguments[2]);
      return Dispatch(call);
    case SYS_io_getevents:
      call.kind = CallKind::kIoGetEvents;
      call.context = static_cast<aio_context_t>(arguments[0]);
      call.min_count = arguments[1];
      call.count = arguments[2];
      call.events = reinterpret_cast<struct io_event*>(arguments[3]);
      call.timeout = reinterpret_cast<struct timespec*>(arguments[4]);
      return Dispatch(call);
    case SYS_membarrier:
      call.kind = CallKind::kMembarrier;
      call.flags = static_cast<int>(arguments[0]);
      return Dispatch(call);
    default:
      return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                            arguments[4], arguments[5]);
  }
}

}  // extern "C"

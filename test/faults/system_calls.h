// The one place where tests come between the library and the kernel.
//
// Each program of tests is linked with --wrap for every call named in CallKind (WRAPPED_CALLS in
// test/rooms.mk). So the library itself holds no hooks: each of its calls lands in __wrap_X.
// Without a hook that is the call itself. With one, the hook is asked instead. It may look, change
// the arguments, make the call with Proceed, change its outcome, or answer instead of the kernel.
// Of io_uring the functions of liburing are wrapped, because their system calls are inline.
//
// Calls of every object in the test binary pass here, the tests' own included; those of shared
// libraries (std::filesystem's mkdir and readdir) do not. A hook tells stores apart by path.
//
// Thread safety: hooks are called by any number of threads at once. Within a hook the calling
// thread's own calls go straight to the kernel.
#ifndef TEST_FAULTS_SYSTEM_CALLS_H_
#define TEST_FAULTS_SYSTEM_CALLS_H_

#include <linux/aio_abi.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

struct io_uring;
struct io_uring_cqe;
struct io_uring_params;
struct iovec;

namespace engine_race::test {

enum class CallKind : uint8_t {
  kPread,
  kPwrite,
  kFsync,
  kFdatasync,
  kFallocate,
  kFtruncate,
  kLseek,
  kOpenAt,
  kRenameAt,
  kUnlinkAt,
  kMkdirAt,
  kMmap,
  kMunmap,
  kMsync,
  kMadvise,
  kFstat,
  kFstatAt,
  kFstatFs,
  kFileLock,  // fcntl with F_OFD_SETLK; its other commands pass
  kClone,     // ioctl with FICLONE; its other requests pass
  kClose,
  kGetrandom,
  kMembarrier,
  kIoSetup,
  kIoSubmit,
  kIoGetEvents,
  kUringSetup,     // io_uring_queue_init_params
  kUringRegister,  // io_uring_register_buffers, io_uring_register_files
  kUringEnable,    // io_uring_enable_rings
  kUringEnter,  // io_uring_submit_and_wait: the kernel gets the entries from sq.khead to sqe_tail
  kUringReap,   // io_uring_peek_batch_cqe: takes completions out of the ring
};
inline constexpr size_t kCallKindCount = static_cast<size_t>(CallKind::kUringReap) + 1;

const char* CallName(CallKind kind);

// The arguments of one call; which fields count is said beside them. A hook may change them before
// Proceed.
struct SystemCall {
  CallKind kind = CallKind::kPread;
  int fd = -1;                     // the file; the directory of the ...at calls; -1: no file
  const char* name = nullptr;      // openat, fstatat, unlinkat, mkdirat, renameat: what is renamed
  int new_fd = -1;                 // renameat: the other directory; clone: the source
  const char* new_name = nullptr;  // renameat: the new name
  // openat, fallocate: mode, lseek: whence, mmap, msync, madvise: advice, fstatat, fcntl:
  // command, getrandom, membarrier: command
  int flags = 0;
  int protection = 0;  // mmap
  mode_t mode = 0;     // openat, mkdirat
  // pread, getrandom: filled. mmap, munmap, msync, madvise: the address. fstat, fstatat: the struct
  // stat; fstatfs: the struct statfs; fcntl: the struct flock.
  void* buffer = nullptr;
  const void* data = nullptr;  // pwrite
  size_t size = 0;             // bytes of pread, pwrite, mmap, munmap, msync, madvise, getrandom
  off_t offset = 0;            // pread, pwrite, fallocate, lseek, mmap
  off_t length = 0;            // fallocate, ftruncate: the new size
  // io_setup, io_uring's set-up and register: how many; io_submit, io_getevents, io_uring's reap:
  // at most how many.
  long count = 0;
  long min_count = 0;                  // io_getevents, io_uring's enter
  aio_context_t context = 0;           // io_submit, io_getevents
  aio_context_t* made = nullptr;       // io_setup
  struct iocb** blocks = nullptr;      // io_submit
  struct io_event* events = nullptr;   // io_getevents: filled; `obj` is the address of the iocb
  struct timespec* timeout = nullptr;  // io_getevents
  struct io_uring* ring = nullptr;
  struct io_uring_params* params = nullptr;  // io_uring's set-up
  const struct iovec* vectors = nullptr;     // io_uring's register, of buffers; else null
  const int* files = nullptr;                // io_uring's register, of files; else null
  struct io_uring_cqe** entries = nullptr;   // io_uring's reap: filled; may be written to

  // Makes the call. Returns what the kernel did (mmap: the address) and leaves errno.
  long Proceed() const;

 private:
  long ProceedWithRing() const;
};

class SystemCallHook {
 public:
  virtual ~SystemCallHook() = default;
  // Stands for the call: returns its result and sets errno when that is -1. A hook on top of
  // another calls the other's OnCall in place of Proceed.
  virtual long OnCall(SystemCall* call) = 0;
  // Whether OnCall handles io_submit with requests to write. If not, io_submit fails with EAGAIN
  // and OnCall is not asked: PieceWriter then writes with pwrite. Only the installed hook is asked,
  // not one below it.
  virtual bool HandlesSubmittedWrites() const { return false; }
};

// Puts `hook` in the place of the present one while it lives. The destructor puts the former one
// back and waits until no thread is in `hook` any more. Not while other threads make one, too.
class ScopedHook {
 public:
  explicit ScopedHook(SystemCallHook* hook);
  ScopedHook(const ScopedHook&) = delete;
  ScopedHook& operator=(const ScopedHook&) = delete;
  ~ScopedHook();

 private:
  SystemCallHook* const former_;
};

// The present path of an open file; empty when there is none. Costs a readlink.
std::string PathOfFd(int fd);
// The path of `name` below directory `dir_fd`, as openat would take it.
std::string PathAt(int dir_fd, const char* name);
// The path that the call is about: PathAt for the ...at calls, PathOfFd for the others. Empty for
// calls without a file: anonymous mappings, getrandom, membarrier, libaio's and io_uring's. The
// iocbs and entries of the last two name the files.
std::string PathOf(const SystemCall& call);

}  // namespace engine_race::test

#endif  // TEST_FAULTS_SYSTEM_CALLS_H_

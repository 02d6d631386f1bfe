#include "engine_race/io/uring_ring.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

namespace engine_race::io {

namespace {

// More requests are started by several calls, whose cost does not matter at that number.
constexpr uint32_t kMaxSubmissionEntries = 1024;
// The kernel's own limit; a thread of the kernel must find everything in the queue.
constexpr uint32_t kMaxKernelEntries = 32768;
// How long the kernel's thread polls for work before it sleeps. It takes a whole CPU meanwhile.
constexpr uint32_t kSqpollIdleMs = 50;

// Limits of the kernel's tables.
constexpr size_t kMaxBufferBytes = size_t{1} << 30;
constexpr size_t kMaxBuffers = 16384;
constexpr int kMaxFileDescriptor = 16383;

// Plain reads, and completions that are never lost: Linux 5.6.
constexpr uint32_t kNeededFeatures = IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS;

// Saves interrupts of the submitting thread. The kernel's work for a completion waits for the
// thread's next system call, and a flag in the ring says that there is some.
constexpr uint32_t kCooperative =
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;
// As kCooperative, but only calls of the ring's own thread do that work, so it is done in batches.
// The ring belongs to the thread that enables it, not to the one that makes it.
constexpr uint32_t kOneThread = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL |
                                IORING_SETUP_R_DISABLED;
// With these the kernel may need calls for requests to be started or to end: a call that polls the
// device, does the thread's own work, or wakes the thread that starts requests.
constexpr uint32_t kNeedsEnter =
    IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_IOPOLL | IORING_SETUP_SQPOLL;

}  // namespace

UringRing::~UringRing() { Close(); }

void UringRing::Close() {
  if (!made_) return;
  // The kernel takes a ring apart some time after its descriptor was closed. Until then a device
  // whose file is registered would look busy.
  if (has_files_) io_uring_unregister_files(&ring_);
  if (!buffers_.empty()) io_uring_unregister_buffers(&ring_);
  io_uring_queue_exit(&ring_);
  made_ = false;
}

void UringRing::CloseAndWait() {
  // Kernels before 6.13 unregister only once no request is in flight, and a ring that polls the
  // device ends none meanwhile. So the tables stay: the kernel drops them when all have ended.
  has_files_ = false;
  buffers_.clear();
  Close();
  // Nobody writes to the pipe: the read ends when the last holder of the other end closes it.
  char byte;
  while (end_.valid() && read(end_.get(), &byte, 1) < 0 && errno == EINTR) {
  }
}

int UringRing::Initialize(uint32_t depth, uint32_t flags) {
  io_uring_params params{};
  params.flags = flags | IORING_SETUP_CQSIZE;
  // The ring never overflows: no more than `depth` completions are awaited at once.
  params.cq_entries = depth;
  params.sq_thread_idle = kSqpollIdleMs;
  const bool sqpoll = (flags & IORING_SETUP_SQPOLL) != 0;
  const uint32_t entries = std::min(depth, sqpoll ? kMaxKernelEntries : kMaxSubmissionEntries);
  const int result = io_uring_queue_init_params(entries, &ring_, &params);
  if (result < 0) return -result;
  made_ = true;
  if ((params.features & kNeededFeatures) != kNeededFeatures) return ENOSYS;
  enabled_ = (flags & IORING_SETUP_R_DISABLED) == 0;
  return 0;
}

Status UringRing::SetUp(const ReadQueueOptions& options) {
  const uint32_t asked =
      (options.iopoll ? IORING_SETUP_IOPOLL : 0) | (options.sqpoll ? IORING_SETUP_SQPOLL : 0);
  // The best set of flags first: a kernel that does not know a flag answers EINVAL. With sqpoll the
  // kernel's thread does all the work, so flags about the submitting thread make no sense.
  int error = EINVAL;
  if (options.single_thread && !options.sqpoll) error = Make(options, asked | kOneThread);
  if (error == EINVAL && !options.sqpoll) error = Make(options, asked | kCooperative);
  if (error == EINVAL) error = Make(options, asked);
  if (error != 0) {
    Status status = Status::FromErrno("io_uring_setup", error);
    // A shortage may pass, so it does not mean that io_uring is not supported.
    if (error == ENOMEM || error == EMFILE || error == ENFILE) return status;
    return status.Reworded(Code::kNotSupported, status.message());
  }
  RegisterBuffers(options.buffers);
  if (!end_.valid()) RegisterFiles(options.files, -1);
  return Status::Ok();
}

int UringRing::Make(const ReadQueueOptions& options, uint32_t flags) {
  const int error = Initialize(options.depth, flags);
  if (error != 0 || (flags & kNeedsEnter) == 0) return error;
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) == 0) {
    end_ = UniqueFd(ends[0]);
    const UniqueFd other_end(ends[1]);
    if (RegisterFiles(options.files, other_end.get())) return 0;
    end_.Reset();
  }
  // Without the pipe this ring could not be closed safely.
  Close();
  return EINVAL;
}

Status UringRing::Enable() {
  if (enabled_) [[likely]] {
    return Status::Ok();
  }
  const int result = io_uring_enable_rings(&ring_);
  if (result < 0) return Status::FromErrno("io_uring_enable_rings", -result);
  enabled_ = true;
  return Status::Ok();
}

void UringRing::RegisterBuffers(std::span<const std::span<char>> buffers) {
  std::vector<iovec> vectors;
  for (const std::span<char> buffer : buffers) {
    for (size_t at = 0; at < buffer.size(); at += kMaxBufferBytes) {
      const size_t size = std::min(kMaxBufferBytes, buffer.size() - at);
      char* const begin = buffer.data() + at;
      buffers_.push_back({begin, begin + size, static_cast<uint32_t>(vectors.size())});
      vectors.push_back({begin, size});
    }
  }
  if (vectors.empty()) return;
  std::sort(buffers_.begin(), buffers_.end(),
            [](const Buffer& left, const Buffer& right) { return left.begin < right.begin; });
  // The kernel refuses for example where RLIMIT_MEMLOCK is too small.
  if (vectors.size() > kMaxBuffers ||
      io_uring_register_buffers(&ring_, vectors.data(), static_cast<unsigned>(vectors.size())) <
          0) {
    buffers_.clear();
  }
}

bool UringRing::RegisterFiles(std::span<const int> files, int end) {
  const int highest = files.empty() ? -1 : *std::max_element(files.begin(), files.end());
  if (highest > kMaxFileDescriptor) files = {};
  std::vector<int> table(files.begin(), files.end());
  if (end >= 0) table.push_back(end);
  if (table.empty()) return false;
  has_files_ =
      io_uring_register_files(&ring_, table.data(), static_cast<unsigned>(table.size())) >= 0;
  if (!has_files_) return !files.empty() && end >= 0 && RegisterFiles({}, end);
  file_indexes_.assign(static_cast<size_t>(highest) + 1, kNoIndex);
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i] >= 0) file_indexes_[static_cast<size_t>(files[i])] = static_cast<int32_t>(i);
  }
  return end >= 0;
}

int32_t UringRing::BufferIndex(const char* begin, uint32_t size_bytes) const {
  const auto after = std::upper_bound(
      buffers_.begin(), buffers_.end(), begin,
      [](const char* address, const Buffer& buffer) { return address < buffer.begin; });
  if (after == buffers_.begin()) return kNoIndex;
  const Buffer& buffer = *std::prev(after);
  if (begin >= buffer.end || size_bytes > static_cast<size_t>(buffer.end - begin)) return kNoIndex;
  return static_cast<int32_t>(buffer.index);
}

int32_t UringRing::FileIndex(int fd) const {
  return fd >= 0 && static_cast<size_t>(fd) < file_indexes_.size()
             ? file_indexes_[static_cast<size_t>(fd)]
             : kNoIndex;
}

void UringRing::PrepareRead(io_uring_sqe* sqe, int fd, void* buffer, uint32_t size_bytes,
                            uint64_t offset) {
  const int32_t buffer_index = BufferIndex(static_cast<const char*>(buffer), size_bytes);
  if (buffer_index != kNoIndex) {
    io_uring_prep_read_fixed(sqe, fd, buffer, size_bytes, offset, buffer_index);
  } else {
    io_uring_prep_read(sqe, fd, buffer, size_bytes, offset);
  }
  const int32_t file_index = FileIndex(fd);
  if (file_index != kNoIndex) {
    sqe->fd = file_index;
    sqe->flags |= IOSQE_FIXED_FILE;
  }
}

uint32_t UringRing::QueuedCount() const {
  // Entries that the kernel's thread can see count as taken, even if it has not looked yet.
  return sqpoll() ? ring_.sq.sqe_tail - ring_.sq.sqe_head : io_uring_sq_ready(&ring_);
}

uint64_t UringRing::TakeBackFirst() {
  io_uring_sq& queue = ring_.sq;
  const uint32_t last = queue.sqe_tail - 1;
  // The order of the queue does not matter, so the last entry replaces the first.
  io_uring_sqe& first_sqe = queue.sqes[*queue.khead & queue.ring_mask];
  const uint64_t user_data = first_sqe.user_data;
  first_sqe = queue.sqes[last & queue.ring_mask];
  queue.sqe_head = queue.sqe_tail = last;
  // Relaxed: the kernel looks at it in this thread's next call.
  std::atomic_ref<unsigned>(*queue.ktail).store(last, std::memory_order_relaxed);
  return user_data;
}

void UringRing::DropQueued() {
  if (sqpoll()) {
    ring_.sq.sqe_tail = ring_.sq.sqe_head;
  } else {
    while (QueuedCount() > 0) TakeBackFirst();
  }
}

int UringRing::Enter(uint32_t wait_count) {
  const int result = io_uring_submit_and_wait(&ring_, wait_count);
  return result < 0 ? -result : 0;
}

void UringRing::CancelAll() {
  io_uring_sync_cancel_reg request{};
  request.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
  // A timeout of zero; kernels before 6.0 refuse the call.
  io_uring_register_sync_cancel(&ring_, &request);
}

}  // namespace engine_race::io

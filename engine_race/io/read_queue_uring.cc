// io_uring, for reads alone: requests outlive a killed process, so none may write to a log.
//
// One system call starts queued requests, waits, and lets the kernel finish completions. A poll
// that finds completions in the ring makes no system call.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/io/read_queue_backends.h"
#include "engine_race/io/uring_ring.h"

namespace engine_race::io {

namespace {

constexpr uint32_t kCompletionBatch = 128;

// Errors that are not the read's own, so that a blocking read must decide. EAGAIN, EBUSY, ENOMEM:
// the kernel is short of some resource. ECANCELED, EFAULT: the thread that started the read has
// ended, and the kernel could not continue the read without it.
bool IsWorthABlockingRead(int error) {
  return error == EAGAIN || error == EINTR || error == EBUSY || error == ENOMEM ||
         error == ECANCELED || error == EFAULT;
}

class UringQueue final : public ReadQueue {
 public:
  UringQueue(uint32_t depth, bool lazy_submit) : ReadQueue(depth), lazy_submit_(lazy_submit) {}
  ~UringQueue() override;

  // Everything later calls need, so that they cannot run out of memory half-way.
  Status SetUp(const ReadQueueOptions& options);

  Status Submit(std::span<const ReadRequest> requests, size_t* started) override;
  Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) override;
  const char* name() const override { return "io_uring"; }

 private:
  struct Operation {
    ReadRequest request;
    ReadProgress progress;
  };

  // Requests that the kernel has taken.
  uint32_t in_kernel() const {
    return in_flight_ - static_cast<uint32_t>(ready_.size() + waiting_.size()) -
           ring_.QueuedCount();
  }
  bool is_all_started() const { return waiting_.empty() && ring_.QueuedCount() == 0; }

  // Moves waiting requests into the submission queue, as far as there is room.
  void Queue();
  // Ring::Enter; a request that the kernel is short of something for ends up in ready_. A signal is
  // no failure. Any other error is about the ring, and changes nothing.
  Status Enter(uint32_t wait_count);
  // Takes completions out of the ring, into ready_ or, after a short transfer, back into waiting_.
  void Reap();
  void Take(uint32_t id, int32_t result);
  // Ends the read with an error, or completes it with blocking reads.
  void Fail(uint32_t id, int error);
  void Finish(uint32_t id, const ReadCompletion& completion);

  const bool lazy_submit_;
  UringRing ring_;
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_;
  // Not yet in the submission queue.
  std::vector<uint32_t> waiting_;
  std::vector<ReadCompletion> ready_;
  // Of the last Submit, for the next Wait to answer.
  Status failure_;
  std::array<io_uring_cqe*, kCompletionBatch> batch_;
};

Status UringQueue::SetUp(const ReadQueueOptions& options) {
  operations_.resize(depth_);
  free_.resize(depth_);
  for (uint32_t i = 0; i < depth_; ++i) free_[i] = depth_ - 1 - i;
  waiting_.reserve(depth_);
  ready_.reserve(depth_);
  return ring_.SetUp(options);
}

UringQueue::~UringQueue() {
  // Nothing was started, perhaps because there is no ring.
  if (in_flight_ == 0) return;
  uint32_t left = in_kernel();
  ring_.DropQueued();
  if (left > 0) ring_.CancelAll();
  while (left > 0) {
    const uint32_t got = io_uring_peek_batch_cqe(ring_.get(), batch_.data(), kCompletionBatch);
    io_uring_cq_advance(ring_.get(), got);
    left -= got;
    if (got > 0) continue;
    const int error = ring_.Enter(1);
    // Another thread's calls, or those that the system refuses, would never find the completions.
    if (ring_.may_close() && (error == EEXIST || IsRefusal(error))) {
      ring_.CloseAndWait();
      return;
    }
    // Any other error is waited out: the kernel may write into the buffers until its reads have
    // ended. The completions of a ring that may not be closed come without a call.
    if (error != 0 && error != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void UringQueue::Finish(uint32_t id, const ReadCompletion& completion) {
  ready_.push_back(completion);
  free_.push_back(id);
}

void UringQueue::Fail(uint32_t id, int error) {
  const Operation& op = operations_[id];
  if (IsWorthABlockingRead(error)) {
    Finish(id, ReadBlocking(op.request, op.progress));
  } else {
    Finish(id, {op.request.tag, error, op.progress.done_bytes});
  }
}

void UringQueue::Queue() {
  size_t queued_count = 0;
  for (const uint32_t id : waiting_) {
    io_uring_sqe* const sqe = io_uring_get_sqe(ring_.get());
    if (sqe == nullptr) break;
    const auto& [request, progress] = operations_[id];
    ring_.PrepareRead(sqe, request.fd, static_cast<char*>(request.buffer) + progress.from_bytes,
                      request.size_bytes - progress.from_bytes,
                      request.offset + progress.from_bytes);
    io_uring_sqe_set_data64(sqe, id);
    ++queued_count;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(queued_count));
}

Status UringQueue::Enter(uint32_t wait_count) {
  const uint32_t queued_count = ring_.QueuedCount();
  int error = ring_.Enter(wait_count);
  if (error == 0 && queued_count > 0 && ring_.QueuedCount() == queued_count) error = EAGAIN;
  if (error == 0 || error == EINTR) return Status::Ok();
  // The kernel tells the errors of requests by completions. So a call that fails has taken nothing,
  // and says nothing about a read.
  const bool may_read = error == EEXIST || IsWorthABlockingRead(error);
  if (may_read && queued_count > 0 && !ring_.sqpoll()) {
    Fail(static_cast<uint32_t>(ring_.TakeBackFirst()), error);
    return Status::Ok();
  }
  if (error == EEXIST) {
    return Status::InvalidArgument("a read queue of one thread is used by another");
  }
  return CallFailed("io_uring_enter", error);
}

Status UringQueue::Submit(std::span<const ReadRequest> requests, size_t* started) {
  *started = 0;
  ENGINE_RACE_RETURN_IF_ERROR(CheckRoomFor(requests.size()));
  ENGINE_RACE_RETURN_IF_ERROR(ring_.Enable());
  for (const ReadRequest& request : requests) {
    const uint32_t id = free_.back();
    free_.pop_back();
    operations_[id] = {request, ReadProgress()};
    if (request.offset > uint64_t{std::numeric_limits<int64_t>::max()}) [[unlikely]] {
      // An offset of -1 would mean the file's own position.
      Fail(id, EINVAL);
    } else {
      waiting_.push_back(id);
    }
  }
  in_flight_ += static_cast<uint32_t>(requests.size());
  *started = requests.size();
  // After a failure the next Wait tells of it, although another call might succeed.
  if (lazy_submit_ || !failure_.ok()) return Status::Ok();
  do {
    Queue();
    failure_ = Enter(0);
  } while (failure_.ok() && !is_all_started());
  return Status::Ok();
}

void UringQueue::Take(uint32_t id, int32_t result) {
  Operation& op = operations_[id];
  if (result < 0) {
    Fail(id, -result);
  } else if (op.progress.Advance(static_cast<uint32_t>(result), op.request.size_bytes)) {
    Finish(id, {op.request.tag, 0, op.progress.done_bytes});
  } else {
    waiting_.push_back(id);
  }
}

void UringQueue::Reap() {
  uint32_t got = 0;
  do {
    got = io_uring_peek_batch_cqe(ring_.get(), batch_.data(), kCompletionBatch);
    for (uint32_t i = 0; i < got; ++i) {
      Take(static_cast<uint32_t>(batch_[i]->user_data), batch_[i]->res);
    }
    io_uring_cq_advance(ring_.get(), got);
  } while (got == kCompletionBatch);
}

Status UringQueue::Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) {
  ENGINE_RACE_RETURN_IF_ERROR(ReserveFor(completions));
  const uint32_t wanted = std::min(min_count, in_flight_);
  Status status = std::exchange(failure_, Status::Ok());
  // One look at the kernel even when enough is ready: a poll must see what has finished.
  while (status.ok() && in_flight_ > ready_.size()) {
    Queue();
    const uint32_t ready = static_cast<uint32_t>(ready_.size());
    const uint32_t missing =
        std::min(wanted > ready ? wanted - ready : 0, in_kernel() + ring_.QueuedCount());
    const uint32_t completed = io_uring_cq_ready(ring_.get());
    if (completed == 0 || completed < missing || ring_.QueuedCount() > 0) status = Enter(missing);
    Reap();
    if (ready_.size() >= wanted && is_all_started()) break;
  }
  HandOut(&ready_, completions);
  return status;
}

}  // namespace

Status MakeIoUringQueue(const ReadQueueOptions& options, std::unique_ptr<ReadQueue>* queue) {
  try {
    auto made = std::make_unique<UringQueue>(options.depth, options.lazy_submit);
    ENGINE_RACE_RETURN_IF_ERROR(made->SetUp(options));
    *queue = std::move(made);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("read queue");
  }
  return Status::Ok();
}

}  // namespace engine_race::io

// Reads by Linux native asynchronous I/O.
#include <linux/aio_abi.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/io/aio_calls.h"
#include "engine_race/io/read_queue_backends.h"

namespace engine_race::io {

namespace {

constexpr long kEventBatch = 128;

class LibaioQueue final : public ReadQueue {
 public:
  LibaioQueue(uint32_t depth, aio_context_t context) : ReadQueue(depth), context_(context) {}
  ~LibaioQueue() override;

  // Everything later calls need, so that they cannot run out of memory half-way.
  void Reserve();

  Status Submit(std::span<const ReadRequest> requests, size_t* started) override;
  Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) override;
  const char* name() const override { return "libaio"; }

 private:
  struct Operation {
    iocb block;
    ReadRequest request;
    ReadProgress progress;
  };

  void Prepare(uint32_t id);
  // Hands the operations of pending_ to the kernel. Those that it refuses end up in ready_. Where
  // the call itself is refused, the operations stay in pending_.
  Status SubmitPending();
  // Takes events from the kernel, at least `min_count`, into ready_ or, after a short transfer,
  // back into pending_.
  Status Reap(long min_count);
  void Finish(uint32_t id, const ReadCompletion& completion);

  const aio_context_t context_;
  uint32_t in_kernel_ = 0;
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_;
  std::vector<iocb*> pending_;
  std::vector<ReadCompletion> ready_;
  // Of the last Submit, for the next Wait to answer.
  Status failure_;
  io_event events_[kEventBatch];
};

void LibaioQueue::Reserve() {
  operations_.resize(depth_);
  free_.resize(depth_);
  for (uint32_t i = 0; i < depth_; ++i) free_[i] = depth_ - 1 - i;
  pending_.reserve(depth_);
  ready_.reserve(depth_);
}

LibaioQueue::~LibaioQueue() { static_cast<void>(IoDestroy(context_, in_kernel_)); }

void LibaioQueue::Prepare(uint32_t id) {
  Operation& op = operations_[id];
  op.block = iocb{};
  op.block.aio_data = id;
  op.block.aio_lio_opcode = IOCB_CMD_PREAD;
  op.block.aio_fildes = static_cast<uint32_t>(op.request.fd);
  op.block.aio_buf = reinterpret_cast<uint64_t>(op.request.buffer) + op.progress.from_bytes;
  op.block.aio_nbytes = op.request.size_bytes - op.progress.from_bytes;
  op.block.aio_offset = static_cast<int64_t>(op.request.offset + op.progress.from_bytes);
  pending_.push_back(&op.block);
}

void LibaioQueue::Finish(uint32_t id, const ReadCompletion& completion) {
  ready_.push_back(completion);
  free_.push_back(id);
}

Status LibaioQueue::Submit(std::span<const ReadRequest> requests, size_t* started) {
  *started = 0;
  ENGINE_RACE_RETURN_IF_ERROR(CheckRoomFor(requests.size()));
  // An operation is free from its completion on, which is ready until Wait hands it out.
  ENGINE_RACE_ASSERT(free_.size() + in_flight_ == depth_ + ready_.size());
  for (const ReadRequest& request : requests) {
    const uint32_t id = free_.back();
    free_.pop_back();
    operations_[id].request = request;
    operations_[id].progress = ReadProgress();
    Prepare(id);
  }
  in_flight_ += static_cast<uint32_t>(requests.size());
  *started = requests.size();
  failure_ = SubmitPending();
  return Status::Ok();
}

Status LibaioQueue::SubmitPending() {
  size_t begin = 0;
  Status status;
  while (begin < pending_.size()) {
    const int taken =
        IoSubmit(context_, static_cast<long>(pending_.size() - begin), pending_.data() + begin);
    if (taken > 0) {
      begin += static_cast<size_t>(taken);
      in_kernel_ += static_cast<uint32_t>(taken);
      continue;
    }
    const int error = errno;
    if (IsRefusal(error)) {
      status = CallFailed("io_submit", error);
      break;
    }
    // The kernel refuses the first operation. EAGAIN is no fault of the operation: the kernel is
    // short of some resource, and a blocking read makes progress without it.
    const uint32_t id = static_cast<uint32_t>(pending_[begin]->aio_data);
    const Operation& op = operations_[id];
    ++begin;
    if (error == EAGAIN) {
      Finish(id, ReadBlocking(op.request, op.progress));
    } else {
      Finish(id, {op.request.tag, error, op.progress.done_bytes});
    }
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(begin));
  return status;
}

Status LibaioQueue::Reap(long min_count) {
  const int got = IoGetEvents(context_, min_count, kEventBatch, events_);
  if (got < 0) return CallFailed("io_getevents", errno);
  in_kernel_ -= static_cast<uint32_t>(got);
  for (int i = 0; i < got; ++i) {
    const uint32_t id = static_cast<uint32_t>(events_[i].data);
    Operation& op = operations_[id];
    const int64_t result = events_[i].res;
    if (result == -EAGAIN || result == -EINTR) {
      Finish(id, ReadBlocking(op.request, op.progress));
    } else if (result < 0) {
      Finish(id, {op.request.tag, static_cast<int>(-result), op.progress.done_bytes});
    } else if (op.progress.Advance(static_cast<uint32_t>(result), op.request.size_bytes)) {
      Finish(id, {op.request.tag, 0, op.progress.done_bytes});
    } else {
      Prepare(id);
    }
  }
  return SubmitPending();
}

Status LibaioQueue::Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) {
  ENGINE_RACE_RETURN_IF_ERROR(ReserveFor(completions));
  const uint32_t wanted = std::min(min_count, in_flight_);
  Status status = std::exchange(failure_, Status::Ok());
  if (status.ok() && !pending_.empty()) status = SubmitPending();
  // One look at the kernel even when enough is ready: a poll must see what has finished.
  while (status.ok() && in_kernel_ > 0) {
    const uint32_t ready = static_cast<uint32_t>(ready_.size());
    const long missing = wanted > ready ? wanted - ready : 0;
    status = Reap(std::min(missing, kEventBatch));
    if (ready_.size() >= wanted) break;
  }
  ENGINE_RACE_ASSERT(in_kernel_ + pending_.size() + ready_.size() == in_flight_);
  HandOut(&ready_, completions);
  return status;
}

}  // namespace

Status MakeLibaioQueue(uint32_t depth, std::unique_ptr<ReadQueue>* queue) {
  aio_context_t context = 0;
  if (IoSetup(depth, &context) != 0) {
    const Status refused = Status::FromErrno("io_setup", errno);
    return refused.Reworded(Code::kNotSupported, refused.message());
  }
  std::unique_ptr<LibaioQueue> made;
  try {
    made = std::make_unique<LibaioQueue>(depth, context);
    context = 0;
    made->Reserve();
  } catch (const std::bad_alloc&) {
    if (context != 0) static_cast<void>(IoDestroy(context, 0));
    return Status::OutOfMemory("read queue");
  }
  *queue = std::move(made);
  return Status::Ok();
}

}  // namespace engine_race::io

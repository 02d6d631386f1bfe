// NVMe read commands through io_uring: each is a submission of double size that carries the command
// itself.
//
// A read that is too long for one command submits its next command when the one before has
// completed. So each read has one command in flight, and the ring never overflows.
#include <liburing.h>
#include <linux/nvme_ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

#include "harness/lab/passthrough.h"

namespace engine_race::lab {

using io::ReadCompletion;
using io::ReadQueue;
using io::ReadRequest;

namespace {

constexpr uint8_t kReadCommand = 0x02;
constexpr size_t kSubmissionBytes = 2 * sizeof(io_uring_sqe);

static_assert(offsetof(io_uring_sqe, cmd) + sizeof(nvme_uring_cmd) <= kSubmissionBytes);

class PassthroughQueue final : public ReadQueue {
 public:
  explicit PassthroughQueue(uint32_t depth) : ReadQueue(depth) {}
  ~PassthroughQueue() override;

  Status Init(std::span<const PassthroughDevice* const> devices);
  Status Submit(std::span<const ReadRequest> requests, size_t* started) override;
  Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) override;
  const char* name() const override { return "nvme passthrough"; }

 private:
  struct Operation {
    ReadRequest request;
    const PassthroughDevice* device = nullptr;
    uint32_t end_bytes = 0;  // of the request, less what lies past the end of the device
    uint32_t done_bytes = 0;
  };

  void Start(const ReadRequest& request);
  void Prepare(uint32_t id);
  uint32_t NextCommandBytes(const Operation& op) const {
    return std::min(op.end_bytes - op.done_bytes, op.device->max_transfer_bytes);
  }
  void Finish(uint32_t id, int error);
  // Submits the prepared commands and waits for `wait_count` completions.
  Status Enter(uint32_t wait_count);
  void Reap();

  std::vector<const PassthroughDevice*> devices_;
  io_uring ring_ = {};
  bool ring_ready_ = false;
  uint32_t on_device_ = 0;  // prepared and not yet reaped
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_;
  std::vector<ReadCompletion> ready_;
};

PassthroughQueue::~PassthroughQueue() {
  // Callers may free their buffers after the destructor, so it waits for all commands.
  while (on_device_ > 0 && Enter(1).ok()) Reap();
  if (ring_ready_) io_uring_queue_exit(&ring_);
}

Status PassthroughQueue::Init(std::span<const PassthroughDevice* const> devices) {
  // Allocates all that later calls need, so that they cannot run out of memory half-way.
  devices_.assign(devices.begin(), devices.end());
  operations_.resize(depth_);
  free_.resize(depth_);
  for (uint32_t i = 0; i < depth_; ++i) free_[i] = depth_ - 1 - i;
  ready_.reserve(depth_);
  io_uring_params params = {};
  params.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | IORING_SETUP_CLAMP;
  const int result = io_uring_queue_init_params(depth_, &ring_, &params);
  if (result < 0) {
    return Status::NotSupported(Status::FromErrno("io_uring_setup", -result).message());
  }
  ring_ready_ = true;
  if (params.sq_entries < depth_) return Status::NotSupported("io_uring: no ring is so deep");
  return Status::Ok();
}

void PassthroughQueue::Start(const ReadRequest& request) {
  const uint32_t id = free_.back();
  free_.pop_back();
  Operation& op = operations_[id];
  op = {request, nullptr, 0, 0};
  const auto device = std::find_if(devices_.begin(), devices_.end(), [&](const auto* candidate) {
    return candidate->fd.get() == request.fd;
  });
  if (device == devices_.end()) return Finish(id, EBADF);
  op.device = *device;
  const uint64_t size_bytes = op.device->size_bytes;
  const uint64_t begin = std::min(request.offset, size_bytes);
  op.end_bytes = static_cast<uint32_t>(std::min<uint64_t>(request.size_bytes, size_bytes - begin));
  if ((request.offset | request.size_bytes) % op.device->block_bytes != 0) {
    return Finish(id, EINVAL);
  }
  if (op.end_bytes == 0) return Finish(id, 0);
  Prepare(id);
}

void PassthroughQueue::Prepare(uint32_t id) {
  const Operation& op = operations_[id];
  const uint32_t bytes = NextCommandBytes(op);
  const uint64_t block = (op.request.offset + op.done_bytes) / op.device->block_bytes;
  nvme_uring_cmd command = {};
  command.opcode = kReadCommand;
  command.nsid = op.device->namespace_id;
  command.addr = reinterpret_cast<uint64_t>(op.request.buffer) + op.done_bytes;
  command.data_len = bytes;
  command.cdw10 = static_cast<uint32_t>(block);
  command.cdw11 = static_cast<uint32_t>(block >> 32);
  command.cdw12 = bytes / op.device->block_bytes - 1;
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  // The ring has an entry for each operation.
  if (sqe == nullptr) return Finish(id, EAGAIN);
  std::memset(sqe, 0, kSubmissionBytes);
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = op.request.fd;
  sqe->cmd_op = NVME_URING_CMD_IO;
  sqe->user_data = id;
  std::memcpy(reinterpret_cast<char*>(sqe) + offsetof(io_uring_sqe, cmd), &command,
              sizeof(command));
  ++on_device_;
}

void PassthroughQueue::Finish(uint32_t id, int error) {
  const Operation& op = operations_[id];
  ready_.push_back({op.request.tag, error, op.done_bytes});
  free_.push_back(id);
}

Status PassthroughQueue::Enter(uint32_t wait_count) {
  while (true) {
    const int result = io_uring_submit_and_wait(&ring_, wait_count);
    if (result >= 0) return Status::Ok();
    if (result == -EINTR) continue;
    // The kernel lacks a resource that completions free. Commands that it did not take stay
    // prepared, and the next call tries again.
    if (result == -EAGAIN || result == -EBUSY) return Status::Ok();
    return Status::FromErrno("io_uring_enter", -result);
  }
}

Status PassthroughQueue::Submit(std::span<const ReadRequest> requests, size_t* started) {
  *started = 0;
  ENGINE_RACE_RETURN_IF_ERROR(CheckRoomFor(requests.size()));
  in_flight_ += static_cast<uint32_t>(requests.size());
  *started = requests.size();
  for (const ReadRequest& request : requests) Start(request);
  return Enter(0);
}

void PassthroughQueue::Reap() {
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const auto id = static_cast<uint32_t>(cqe->user_data);
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    --on_device_;
    Operation& op = operations_[id];
    if (result == 0) op.done_bytes += NextCommandBytes(op);
    if (result == 0 && op.done_bytes < op.end_bytes) {
      Prepare(id);
    } else {
      // Above zero it is the device's own status.
      Finish(id, result > 0 ? EIO : -result);
    }
  }
}

Status PassthroughQueue::Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) {
  ENGINE_RACE_RETURN_IF_ERROR(ReserveFor(completions));
  const uint32_t wanted = std::min(min_count, in_flight_);
  Reap();
  Status status;
  // At least once, to submit the next commands of reads that were just reaped.
  do {
    if (on_device_ == 0) break;
    status = Enter(ready_.size() < wanted ? 1 : 0);
    Reap();
  } while (status.ok() && ready_.size() < wanted);
  HandOut(&ready_, completions);
  return status;
}

}  // namespace

Status MakePassthroughQueue(std::span<const PassthroughDevice* const> devices, uint32_t depth,
                            std::unique_ptr<ReadQueue>* queue) {
  constexpr uint32_t kMaxDepth = 32768;
  if (depth == 0 || depth > kMaxDepth) {
    return Status::InvalidArgument("read queue depth " + std::to_string(depth));
  }
  try {
    auto made = std::make_unique<PassthroughQueue>(depth);
    ENGINE_RACE_RETURN_IF_ERROR(made->Init(devices));
    *queue = std::move(made);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("read queue");
  }
  return Status::Ok();
}

}  // namespace engine_race::lab

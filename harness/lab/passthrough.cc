#include "harness/lab/passthrough.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "engine_race/base/memory.h"

namespace engine_race::lab {

namespace {

// From the NVM Express Base Specification: the command, its structures, and the fields that are
// read.
constexpr uint8_t kIdentify = 0x06;
constexpr uint32_t kIdentifyNamespace = 0;
constexpr uint32_t kIdentifyController = 1;
constexpr uint32_t kIdentifyBytes = 4096;
constexpr uint32_t kNamespaceSizeAt = 0;  // in blocks, 8 bytes
constexpr uint32_t kFormatInUseAt = 26;   // its number: bits 0 to 3, and 5 to 6 above them
constexpr uint32_t kFormatsAt = 128;      // 4 bytes each
constexpr uint32_t kFormatBytes = 4;
constexpr uint32_t kMetadataBytesAt = 0;      // of a format, 2 bytes
constexpr uint32_t kBlockShiftAt = 2;         // of a format
constexpr uint32_t kMaxTransferShiftAt = 77;  // in the smallest pages; 0: no limit
constexpr uint32_t kSmallestPageBytes = 4096;
constexpr uint32_t kMaxBlockShift = 16;

// Longer commands need more segments than some kernels map for one command.
constexpr uint32_t kSafeTransferBytes = 128 * 1024;

Status Identify(const PassthroughDevice& device, uint32_t structure, char* data) {
  nvme_admin_cmd command = {};
  command.opcode = kIdentify;
  command.nsid = structure == kIdentifyNamespace ? device.namespace_id : 0;
  command.addr = reinterpret_cast<uint64_t>(data);
  command.data_len = kIdentifyBytes;
  command.cdw10 = structure;
  const int result = ::ioctl(device.fd.get(), NVME_IOCTL_ADMIN_CMD, &command);
  if (result == 0) return Status::Ok();
  // Above zero it is the device's own status.
  return Status::NotSupported(
      device.path +
      ": identify: " + (result > 0 ? "status " + std::to_string(result) : std::strerror(errno)));
}

Status ReadNamespace(PassthroughDevice* device, char* data) {
  ENGINE_RACE_RETURN_IF_ERROR(Identify(*device, kIdentifyNamespace, data));
  const auto flags = static_cast<uint8_t>(data[kFormatInUseAt]);
  const uint32_t format = (flags & 0xf) | (flags >> 5 & 3) << 4;
  const char* const in_use = data + kFormatsAt + format * kFormatBytes;
  uint16_t metadata_bytes = 0;
  std::memcpy(&metadata_bytes, in_use + kMetadataBytesAt, sizeof(metadata_bytes));
  const auto block_shift = static_cast<uint8_t>(in_use[kBlockShiftAt]);
  uint64_t block_count = 0;
  std::memcpy(&block_count, data + kNamespaceSizeAt, sizeof(block_count));
  if (metadata_bytes != 0 || block_shift > kMaxBlockShift) {
    return Status::NotSupported(device->path + ": blocks of 2^" + std::to_string(block_shift) +
                                " bytes with " + std::to_string(metadata_bytes) +
                                " bytes of metadata");
  }
  device->block_bytes = uint32_t{1} << block_shift;
  device->size_bytes = block_count << block_shift;
  return Status::Ok();
}

Status ReadController(PassthroughDevice* device, char* data) {
  ENGINE_RACE_RETURN_IF_ERROR(Identify(*device, kIdentifyController, data));
  const auto shift = static_cast<uint8_t>(data[kMaxTransferShiftAt]);
  device->max_transfer_bytes = kSafeTransferBytes;
  if (shift != 0 && shift < 16) {
    device->max_transfer_bytes = std::min(kSafeTransferBytes, kSmallestPageBytes << shift);
  }
  return Status::Ok();
}

// Does not trust the names: both devices must report the same namespace and the same size.
Status CheckSame(const std::string& block_device, const PassthroughDevice& device) {
  UniqueFd block;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, block_device, O_RDONLY, 0, &block));
  uint64_t size_bytes = 0;
  const int namespace_id = ::ioctl(block.get(), NVME_IOCTL_ID);
  if (::ioctl(block.get(), BLKGETSIZE64, &size_bytes) != 0 || size_bytes != device.size_bytes ||
      namespace_id < 0 || static_cast<uint32_t>(namespace_id) != device.namespace_id) {
    return Status::NotSupported(device.path + " is not the namespace of " + block_device);
  }
  return Status::Ok();
}

// Removes digits from the front.
bool SkipDigits(std::string_view* text) {
  const size_t digits = std::min(text->find_first_not_of("0123456789"), text->size());
  text->remove_prefix(digits);
  return digits > 0;
}

}  // namespace

Status PassthroughPath(const std::string& block_device, std::string* path) {
  // Follows links such as those in /dev/disk/by-id to the kernel's name.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(block_device, error);
  if (error) return Status::FromErrno("realpath " + block_device, error.value());
  const std::string name = real.filename().string();
  constexpr std::string_view kPrefix = "nvme";
  std::string_view rest = name;
  if (rest.starts_with(kPrefix)) {
    rest.remove_prefix(kPrefix.size());
    const std::string numbers(rest);
    if (SkipDigits(&rest) && rest.starts_with("n")) {
      rest.remove_prefix(1);
      if (SkipDigits(&rest) && rest.empty()) {
        *path = real.parent_path() / ("ng" + numbers);
        return Status::Ok();
      }
    }
  }
  return Status::NotSupported(block_device + ": not a whole NVMe namespace");
}

Status OpenPassthrough(const std::string& block_device, PassthroughDevice* device) {
  PassthroughDevice opened;
  ENGINE_RACE_RETURN_IF_ERROR(PassthroughPath(block_device, &opened.path));
  struct stat info;
  if (::stat(opened.path.c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) {
    return Status::NotSupported(opened.path + ": no such character device");
  }
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, opened.path, O_RDONLY, 0, &opened.fd));
  const int namespace_id = ::ioctl(opened.fd.get(), NVME_IOCTL_ID);
  if (namespace_id <= 0) return Status::NotSupported(opened.path + ": not an NVMe namespace");
  opened.namespace_id = static_cast<uint32_t>(namespace_id);
  Region data;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIdentifyBytes, /*huge_pages=*/false, &data));
  ENGINE_RACE_RETURN_IF_ERROR(ReadNamespace(&opened, data.data()));
  ENGINE_RACE_RETURN_IF_ERROR(ReadController(&opened, data.data()));
  ENGINE_RACE_RETURN_IF_ERROR(CheckSame(block_device, opened));
  *device = std::move(opened);
  return Status::Ok();
}

// NVMe read commands through io_uring: each is a submission of double size that carries the command
// itself.
//
// A read that is too long for one command submits its next command when the one before has
// completed. So each read has one command in flight, and the ring never overflows.

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
  ~PassthroughQueue() override {
    // Callers may free their buffers after the destructor, so it waits for all commands.
    while (on_device_ > 0 && Enter(1).ok()) Reap();
    if (ring_ready_) io_uring_queue_exit(&ring_);
  }

  Status Init(std::span<const PassthroughDevice* const> devices) {
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
  Status Submit(std::span<const ReadRequest> requests, size_t* started) override {
    *started = 0;
    ENGINE_RACE_RETURN_IF_ERROR(CheckRoomFor(requests.size()));
    in_flight_ += static_cast<uint32_t>(requests.size());
    *started = requests.size();
    for (const ReadRequest& request : requests) Start(request);
    return Enter(0);
  }
  Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) override {
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
  const char* name() const override { return "nvme passthrough"; }

 private:
  struct Operation {
    ReadRequest request;
    const PassthroughDevice* device = nullptr;
    uint32_t end_bytes = 0;  // of the request, less what lies past the end of the device
    uint32_t done_bytes = 0;
  };

  void Start(const ReadRequest& request) {
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
    op.end_bytes =
        static_cast<uint32_t>(std::min<uint64_t>(request.size_bytes, size_bytes - begin));
    if ((request.offset | request.size_bytes) % op.device->block_bytes != 0) {
      return Finish(id, EINVAL);
    }
    if (op.end_bytes == 0) return Finish(id, 0);
    Prepare(id);
  }
  void Prepare(uint32_t id) {
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
  uint32_t NextCommandBytes(const Operation& op) const {
    return std::min(op.end_bytes - op.done_bytes, op.device->max_transfer_bytes);
  }
  void Finish(uint32_t id, int error) {
    const Operation& op = operations_[id];
    ready_.push_back({op.request.tag, error, op.done_bytes});
    free_.push_back(id);
  }
  // Submits the prepared commands and waits for `wait_count` completions.
  Status Enter(uint32_t wait_count) {
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
  void Reap() {
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

  std::vector<const PassthroughDevice*> devices_;
  io_uring ring_ = {};
  bool ring_ready_ = false;
  uint32_t on_device_ = 0;  // prepared and not yet reaped
  std::vector<Operation> operations_;
  std::vector<uint32_t> free_;
  std::vector<ReadCompletion> ready_;
};

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

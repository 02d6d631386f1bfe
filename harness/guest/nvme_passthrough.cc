// The checks of passthrough on devices that take it.
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/block_device.h"
#include "harness/data/mix.h"
#include "harness/guest/system.h"
#include "harness/lab/passthrough.h"

namespace engine_race::guest {
namespace {

constexpr uint64_t kPatternBytes = uint64_t{16} << 20;
constexpr uint32_t kMaxReadBytes = 1u << 20;
constexpr uint32_t kDepth = 16;
constexpr uint32_t kBlockBytes = 512;

// One of the raw disks, as a block device and as a character device.
struct Disk {
  uint64_t seed = 0;
  io::BlockDevice block;
  lab::PassthroughDevice passthrough;

  uint64_t WordAt(uint64_t offset) const { return harness::MixAt(seed, offset); }
};

std::string Failed(const std::string& call, const Status& status) {
  return call + ": " + status.ToString();
}

std::string WritePattern(const Disk& disk) {
  Region buffer;
  if (!Region::Allocate(kMaxReadBytes, /*huge_pages=*/false, &buffer).ok()) return "no memory";
  for (uint64_t offset = 0; offset < kPatternBytes; offset += kMaxReadBytes) {
    for (uint64_t at = 0; at < kMaxReadBytes; at += sizeof(uint64_t)) {
      const uint64_t word = disk.WordAt(offset + at);
      std::memcpy(buffer.data() + at, &word, sizeof(word));
    }
    const Status status = disk.block.file.Write(buffer.data(), buffer.size(), offset);
    if (!status.ok()) return Failed("write", status);
  }
  return {};
}

std::string OpenDisk(const std::string& path, uint64_t seed, Disk* disk) {
  disk->seed = seed;
  Status status = io::BlockDevice::Open(path, /*read_only=*/false, &disk->block);
  if (!status.ok()) return Failed("open", status);
  status = lab::OpenPassthrough(path, &disk->passthrough);
  if (!status.ok()) return Failed("open passthrough", status);
  if (disk->passthrough.size_bytes != disk->block.size_bytes) return "sizes differ";
  if (disk->passthrough.block_bytes != kBlockBytes) return "blocks are not of 512 bytes";
  return WritePattern(*disk);
}

// A queue over both disks with `kDepth` buffers.
class Reader {
 public:
  Reader(const Disk& first, const Disk& second) : disks_{&first, &second} {}

  std::string Open() {
    const lab::PassthroughDevice* const devices[] = {&disks_[0]->passthrough,
                                                     &disks_[1]->passthrough};
    const Status status = lab::MakePassthroughQueue(devices, kDepth, &queue_);
    if (!status.ok()) return Failed("queue", status);
    if (!Region::Allocate(uint64_t{kDepth} * kMaxReadBytes, /*huge_pages=*/false, &memory_).ok()) {
      return "no memory";
    }
    return {};
  }

  // Makes reads of random offsets and sizes, a queue full at a time.
  std::string ReadAll(uint32_t round_count) {
    for (uint32_t round = 0; round < round_count; ++round) {
      std::vector<io::ReadRequest> requests;
      for (uint32_t i = 0; i < kDepth; ++i) requests.push_back(RandomRequest(round, i));
      size_t started = 0;
      Status status = queue_->Submit(requests, &started);
      if (!status.ok() || started != kDepth) return Failed("submit", status);
      std::vector<io::ReadCompletion> completions;
      while (status.ok() && queue_->in_flight() > 0) status = queue_->Wait(1, &completions);
      if (!status.ok()) return Failed("wait", status);
      if (completions.size() != kDepth) return "a read is missing";
      for (const io::ReadCompletion& completion : completions) {
        std::string wrong = CheckRead(requests[completion.tag], completion);
        if (!wrong.empty()) return wrong;
      }
    }
    return {};
  }

  // Makes one read and returns its completion.
  io::ReadCompletion ReadOne(int fd, uint32_t size_bytes, uint64_t offset) {
    const io::ReadRequest request = {fd, size_bytes, offset, memory_.data(), 0};
    size_t started = 0;
    std::vector<io::ReadCompletion> completions;
    const bool done =
        queue_->Submit({&request, 1}, &started).ok() && queue_->Wait(1, &completions).ok();
    return done && completions.size() == 1 ? completions.front()
                                           : io::ReadCompletion{0, ENODATA, 0};
  }

 private:
  io::ReadRequest RandomRequest(uint32_t round, uint32_t i) {
    const uint64_t draw = harness::MixAt(round, i);
    uint32_t size_bytes = 4096;
    if ((draw & 3) == 0) size_bytes = kBlockBytes * (1 + draw / 16 % (kMaxReadBytes / kBlockBytes));
    const uint64_t places = (kPatternBytes - size_bytes) / kBlockBytes + 1;
    const Disk& disk = *disks_[draw >> 2 & 1];
    return {disk.passthrough.fd.get(), size_bytes,
            harness::AsBelow(harness::Mix64(draw), places) * kBlockBytes,
            memory_.data() + uint64_t{i} * kMaxReadBytes, i};
  }

  std::string CheckRead(const io::ReadRequest& request, const io::ReadCompletion& completion) {
    const std::string which = "read of " + std::to_string(request.size_bytes) + " bytes at " +
                              std::to_string(request.offset);
    if (completion.error != 0) return which + ": " + std::strerror(completion.error);
    if (completion.read_bytes != request.size_bytes) return which + " is short";
    const Disk& disk = *disks_[request.fd == disks_[0]->passthrough.fd.get() ? 0 : 1];
    for (uint64_t at = 0; at < request.size_bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(request.buffer) + at, sizeof(word));
      if (word != disk.WordAt(request.offset + at)) {
        return which + " gives other bytes from " + std::to_string(at);
      }
    }
    return {};
  }

  const Disk* disks_[2];
  std::unique_ptr<io::ReadQueue> queue_;
  Region memory_;
};

std::string CheckEdges(const Disk& disk, Reader* reader) {
  const int fd = disk.passthrough.fd.get();
  const uint64_t end = disk.passthrough.size_bytes;
  const io::ReadCompletion short_read = reader->ReadOne(fd, 8192, end - 4096);
  if (short_read.error != 0 || short_read.read_bytes != 4096) return "the end is not found";
  if (reader->ReadOne(fd, 4096, 256).error != EINVAL) return "half a block is read";
  if (reader->ReadOne(fd, 4096, 0).read_bytes != 4096) return "no read after a failed one";
  return {};
}

// A device that is smaller than it claims answers with a status of its own.
std::string CheckDeviceError(const std::string& path) {
  Disk liar;
  const Status status = lab::OpenPassthrough(path, &liar.passthrough);
  if (!status.ok()) return Failed("open again", status);
  const uint64_t end = liar.passthrough.size_bytes;
  liar.passthrough.size_bytes += uint64_t{1} << 20;
  Reader reader(liar, liar);
  std::string wrong = reader.Open();
  if (!wrong.empty()) return wrong;
  const int error = reader.ReadOne(liar.passthrough.fd.get(), 4096, end).error;
  return error == EIO ? "" : "past the end the device says " + std::string(std::strerror(error));
}

}  // namespace

std::string CheckPassthrough(const Disks& disks) {
  Disk first;
  Disk second;
  std::string wrong = OpenDisk(disks.first, 1, &first);
  if (wrong.empty()) wrong = OpenDisk(disks.second, 2, &second);
  Reader reader(first, second);
  if (wrong.empty()) wrong = reader.Open();
  if (wrong.empty()) wrong = reader.ReadAll(/*round_count=*/20);
  if (wrong.empty()) wrong = CheckEdges(first, &reader);
  if (wrong.empty()) wrong = CheckDeviceError(disks.second);
  return wrong;
}

}  // namespace engine_race::guest

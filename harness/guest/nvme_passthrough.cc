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

Status Wrong(const std::string& what) { return Status::Corruption(what); }

// One of the raw disks, as a block device and as a character device.
struct Disk {
  uint64_t seed = 0;
  io::BlockDevice block;
  lab::PassthroughDevice passthrough;

  uint64_t WordAt(uint64_t offset) const { return harness::MixAt(seed, offset); }
};

Status WritePattern(const Disk& disk) {
  Region buffer;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kMaxReadBytes, /*huge_pages=*/false, &buffer));
  for (uint64_t offset = 0; offset < kPatternBytes; offset += kMaxReadBytes) {
    for (uint64_t at = 0; at < kMaxReadBytes; at += sizeof(uint64_t)) {
      const uint64_t word = disk.WordAt(offset + at);
      std::memcpy(buffer.data() + at, &word, sizeof(word));
    }
    ENGINE_RACE_RETURN_IF_ERROR(disk.block.file.Write(buffer.data(), buffer.size(), offset));
  }
  return {};
}

Status OpenDisk(const std::string& path, uint64_t seed, Disk* disk) {
  disk->seed = seed;
  ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Open(path, /*read_only=*/false, &disk->block));
  ENGINE_RACE_RETURN_IF_ERROR(lab::OpenPassthrough(path, &disk->passthrough));
  if (disk->passthrough.size_bytes != disk->block.size_bytes) return Wrong("sizes differ");
  if (disk->passthrough.block_bytes != kBlockBytes) return Wrong("blocks are not of 512 bytes");
  return WritePattern(*disk);
}

// A queue over both disks with `kDepth` buffers.
class Reader {
 public:
  Reader(const Disk& first, const Disk& second) : disks_{&first, &second} {}

  Status Open() {
    const lab::PassthroughDevice* const devices[] = {&disks_[0]->passthrough,
                                                     &disks_[1]->passthrough};
    ENGINE_RACE_RETURN_IF_ERROR(lab::MakePassthroughQueue(devices, kDepth, &queue_));
    return Region::Allocate(uint64_t{kDepth} * kMaxReadBytes, /*huge_pages=*/false, &memory_);
  }

  // Makes reads of random offsets and sizes, a queue full at a time.
  Status ReadAll(uint32_t round_count) {
    for (uint32_t round = 0; round < round_count; ++round) {
      std::vector<io::ReadRequest> requests;
      for (uint32_t i = 0; i < kDepth; ++i) requests.push_back(RandomRequest(round, i));
      size_t started = 0;
      ENGINE_RACE_RETURN_IF_ERROR(queue_->Submit(requests, &started));
      std::vector<io::ReadCompletion> completions;
      while (queue_->in_flight() > 0) {
        ENGINE_RACE_RETURN_IF_ERROR(queue_->Wait(1, &completions));
      }
      if (started != kDepth || completions.size() != kDepth) return Wrong("a read is missing");
      for (const io::ReadCompletion& completion : completions) {
        ENGINE_RACE_RETURN_IF_ERROR(CheckRead(requests[completion.tag], completion));
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

  Status CheckRead(const io::ReadRequest& request, const io::ReadCompletion& completion) {
    const std::string which = "read of " + std::to_string(request.size_bytes) + " bytes at " +
                              std::to_string(request.offset);
    if (completion.error != 0) return Wrong(which + ": " + std::strerror(completion.error));
    if (completion.read_bytes != request.size_bytes) return Wrong(which + " is short");
    const Disk& disk = *disks_[request.fd == disks_[0]->passthrough.fd.get() ? 0 : 1];
    for (uint64_t at = 0; at < request.size_bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(request.buffer) + at, sizeof(word));
      if (word != disk.WordAt(request.offset + at)) {
        return Wrong(which + " gives other bytes from " + std::to_string(at));
      }
    }
    return {};
  }

  const Disk* disks_[2];
  std::unique_ptr<io::ReadQueue> queue_;
  Region memory_;
};

Status CheckEdges(const Disk& disk, Reader* reader) {
  const int fd = disk.passthrough.fd.get();
  const uint64_t end = disk.passthrough.size_bytes;
  const io::ReadCompletion short_read = reader->ReadOne(fd, 8192, end - 4096);
  if (short_read.error != 0 || short_read.read_bytes != 4096) return Wrong("the end is not found");
  if (reader->ReadOne(fd, 4096, 256).error != EINVAL) return Wrong("half a block is read");
  if (reader->ReadOne(fd, 4096, 0).read_bytes != 4096) return Wrong("no read after a failed one");
  return {};
}

// A device that is smaller than it claims answers with a status of its own.
Status CheckDeviceError(const std::string& path) {
  Disk liar;
  ENGINE_RACE_RETURN_IF_ERROR(lab::OpenPassthrough(path, &liar.passthrough));
  const uint64_t end = liar.passthrough.size_bytes;
  liar.passthrough.size_bytes += uint64_t{1} << 20;
  Reader reader(liar, liar);
  ENGINE_RACE_RETURN_IF_ERROR(reader.Open());
  const int error = reader.ReadOne(liar.passthrough.fd.get(), 4096, end).error;
  if (error == EIO) return {};
  return Wrong("past the end the device says " + std::string(std::strerror(error)));
}

}  // namespace

Status CheckPassthrough(const Disks& disks) {
  Disk first;
  Disk second;
  ENGINE_RACE_RETURN_IF_ERROR(OpenDisk(disks.first, 1, &first));
  ENGINE_RACE_RETURN_IF_ERROR(OpenDisk(disks.second, 2, &second));
  Reader reader(first, second);
  ENGINE_RACE_RETURN_IF_ERROR(reader.Open());
  ENGINE_RACE_RETURN_IF_ERROR(reader.ReadAll(/*round_count=*/20));
  ENGINE_RACE_RETURN_IF_ERROR(CheckEdges(first, &reader));
  return CheckDeviceError(disks.second);
}

}  // namespace engine_race::guest

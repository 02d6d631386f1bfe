// Rates of emulated disks: they show that every back end works, and little else.
#include <cerrno>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/major.h>
#include <linux/raid/md_u.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine_race/base/memory.h"
#include "engine_race/io/block_device.h"
#include "engine_race/io/read_queue.h"
#include "harness/data/mix.h"
#include "harness/guest/system.h"
#include "harness/lab/passthrough.h"

namespace engine_race::guest {
namespace {

constexpr uint32_t kDepth = 32;
constexpr auto kMeasured = std::chrono::milliseconds(400);
constexpr uint64_t kSpanBytes = uint64_t{64} << 20;
constexpr uint32_t kChunkBytes = 128 * 1024;

// The file and offset of the n-th read.
using PlaceFn = std::function<std::pair<int, uint64_t>(uint64_t number)>;

// Reads a second with kDepth of them in flight; negative after a failure.
double ReadRateOnce(io::ReadQueue* queue, uint32_t size_bytes, const PlaceFn& place) {
  Region memory;
  if (!Region::Allocate(uint64_t{kDepth} * size_bytes, /*huge_pages=*/false, &memory).ok())
    return -1;
  std::vector<uint64_t> free;
  for (uint32_t i = 0; i < kDepth; ++i) free.push_back(i);
  uint64_t number = 0;
  uint64_t done_count = 0;
  bool good = true;
  std::vector<io::ReadCompletion> completions;
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> elapsed{};
  while (good && elapsed < kMeasured) {
    std::vector<io::ReadRequest> requests;
    for (const uint64_t i : free) {
      const auto [fd, offset] = place(number++);
      requests.push_back({fd, size_bytes, offset, memory.data() + i * size_bytes, i});
    }
    free.clear();
    size_t started = 0;
    completions.clear();
    good = queue->Submit(requests, &started).ok() && queue->Wait(1, &completions).ok();
    for (const io::ReadCompletion& completion : completions) {
      good = good && completion.error == 0 && completion.read_bytes == size_bytes;
      free.push_back(completion.tag);
    }
    done_count += completions.size();
    elapsed = std::chrono::steady_clock::now() - begin;
  }
  completions.clear();
  while (queue->in_flight() > 0 && queue->Wait(1, &completions).ok()) completions.clear();
  return good ? static_cast<double>(done_count) / elapsed.count() : -1;
}

// Returns the rate of a second run: QEMU emulates code faster from then on.
double ReadRate(io::ReadQueue* queue, uint32_t size_bytes, const PlaceFn& place) {
  const double first_rate = ReadRateOnce(queue, size_bytes, place);
  return first_rate < 0 ? first_rate : ReadRateOnce(queue, size_bytes, place);
}

uint64_t RandomOffset(uint64_t number, uint32_t size_bytes) {
  return harness::AsBelow(harness::MixAt(3, number), kSpanBytes / size_bytes) * size_bytes;
}

void SayRate(const std::string& what, double rate) {
  Say("INFO " + what + ": " +
      (rate < 0 ? "fails" : std::to_string(std::lround(rate)) + " reads/s"));
}

Status Refused(const std::string& call) { return Status::FromErrno(call, errno); }

// Loads a module from the initial file system.
bool LoadModule(const std::string& name) {
  const UniqueFd fd(::open(("/modules/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() && ::syscall(SYS_finit_module, fd.get(), "", 0) == 0;
}

// RAID-0 without a superblock, so that it leaves nothing on the disks. The destructor stops it.
class Raid0 {
 public:
  ~Raid0() {
    if (fd_.valid()) ::ioctl(fd_.get(), STOP_ARRAY, nullptr);
  }

  Status Start(const std::vector<std::string>& devices) {
    if (!LoadModule("md-mod.ko") || !LoadModule("raid0.ko")) {
      return Status::NotSupported("its modules are not there");
    }
    ::mknod(kPath, S_IFBLK | 0600, makedev(MD_MAJOR, 0));
    fd_ = UniqueFd(::open(kPath, O_RDWR | O_CLOEXEC));
    if (!fd_.valid()) return Refused("open");
    mdu_array_info_t array = {};
    array.minor_version = 90;
    array.nr_disks = array.raid_disks = static_cast<int>(devices.size());
    array.not_persistent = 1;
    array.chunk_size = kChunkBytes;
    if (::ioctl(fd_.get(), SET_ARRAY_INFO, &array) != 0) return Refused("SET_ARRAY_INFO");
    for (size_t i = 0; i < devices.size(); ++i) {
      struct stat info;
      if (::stat(devices[i].c_str(), &info) != 0) return Refused("stat");
      mdu_disk_info_t disk = {};
      disk.number = disk.raid_disk = static_cast<int>(i);
      disk.major = static_cast<int>(major(info.st_rdev));
      disk.minor = static_cast<int>(minor(info.st_rdev));
      constexpr int kActiveInSync = 1 << 1 | 1 << 2;
      disk.state = kActiveInSync;
      if (::ioctl(fd_.get(), ADD_NEW_DISK, &disk) != 0) return Refused("ADD_NEW_DISK");
    }
    if (::ioctl(fd_.get(), RUN_ARRAY, nullptr) != 0) return Refused("RUN_ARRAY");
    return {};
  }

  static constexpr char kPath[] = "/dev/md0";

 private:
  UniqueFd fd_;
};

// Reads random pieces of two sizes with the best queue.
Status CompareSizes(const std::string& what, const PlaceFn& piece_place) {
  for (const uint32_t size_bytes : {4096u, kChunkBytes}) {
    std::unique_ptr<io::ReadQueue> queue;
    ENGINE_RACE_RETURN_IF_ERROR(io::ReadQueue::Create({IoBackend::kAuto, kDepth}, &queue));
    const double rate = ReadRate(queue.get(), size_bytes, [&](uint64_t number) {
      // The disk and offset of a chunk, and of a piece in it.
      const auto [fd, offset] =
          piece_place(harness::AsBelow(harness::MixAt(4, number), kSpanBytes / kChunkBytes));
      const uint64_t piece = harness::MixAt(5, number) % (kChunkBytes / size_bytes);
      return std::pair(fd, offset + piece * size_bytes);
    });
    SayRate(what + ", " + std::to_string(size_bytes / 1024) + " KiB, depth 32", rate);
    if (rate < 0) return Status::IOError(what + ": a read fails");
  }
  return {};
}

}  // namespace

void CompareBackends(const Disks& disks) {
  io::BlockDevice block;
  lab::PassthroughDevice device;
  if (!io::BlockDevice::Open(disks.first, /*read_only=*/true, &block).ok() ||
      !lab::OpenPassthrough(disks.first, &device).ok()) {
    return Say("INFO no comparison: the disk does not open");
  }
  const auto place_on = [](int fd) {
    return [fd](uint64_t number) { return std::pair(fd, RandomOffset(number, kValueBytes)); };
  };
  constexpr std::pair<IoBackend, const char*> kBackends[] = {{IoBackend::kPsync, "pread"},
                                                             {IoBackend::kLibaio, "libaio"},
                                                             {IoBackend::kIoUring, "io_uring"}};
  for (const auto& [backend, name] : kBackends) {
    std::unique_ptr<io::ReadQueue> queue;
    if (!io::ReadQueue::Create({backend, kDepth}, &queue).ok()) continue;
    SayRate(std::string("random 4 KiB, depth 32, ") + name,
            ReadRate(queue.get(), kValueBytes, place_on(block.file.fd())));
  }
  std::unique_ptr<io::ReadQueue> queue;
  const lab::PassthroughDevice* const devices[] = {&device};
  if (!lab::MakePassthroughQueue(devices, kDepth, &queue).ok()) return;
  SayRate("random 4 KiB, depth 32, passthrough",
          ReadRate(queue.get(), kValueBytes, place_on(device.fd.get())));
}

Status CompareWithRaid(const Disks& disks) {
  {
    io::BlockDevice first;
    io::BlockDevice second;
    ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Open(disks.first, /*read_only=*/true, &first));
    ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Open(disks.second, /*read_only=*/true, &second));
    const int fds[] = {first.file.fd(), second.file.fd()};
    ENGINE_RACE_RETURN_IF_ERROR(CompareSizes("two disks striped by us", [&](uint64_t chunk) {
      return std::pair(fds[chunk % 2], chunk / 2 * kChunkBytes);
    }));
  }
  Raid0 raid;
  ENGINE_RACE_RETURN_IF_ERROR(raid.Start({disks.first, disks.second}));
  io::BlockDevice array;
  ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Open(Raid0::kPath, /*read_only=*/true, &array));
  // A member of the RAID is in use, although it has no signature.
  io::BlockDevice member;
  if (io::BlockDevice::Open(disks.first, /*read_only=*/false, &member).code() != Code::kIOError) {
    return Status::Corruption("a disk of an array opens for writing");
  }
  return CompareSizes("two disks striped by md RAID-0", [&](uint64_t chunk) {
    return std::pair(array.file.fd(), chunk * kChunkBytes);
  });
}

}  // namespace engine_race::guest

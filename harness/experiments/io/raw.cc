#include "harness/experiments/io/raw.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "engine_race/base/memory.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/io/file.h"
#include "harness/data/mix.h"
#include "harness/measure/timed.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

using io::ReadCompletion;
using io::ReadQueue;
using io::ReadQueueOptions;
using io::ReadRequest;

// Keeps one queue full of random reads.
class RawWorker {
 public:
  RawWorker(const RawLoad& load, uint32_t depth, uint64_t seed)
      : load_(load), depth_(depth), picker_(load.files, load.page_bytes, seed) {}

  Status Prepare() {
    const size_t stride = std::max<size_t>(load_.page_bytes, kIoAlignment);
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(depth_ * stride, false, &buffers_));
    // Touched ahead, so that page faults are not measured.
    std::memset(buffers_.data(), 1, buffers_.size());
    whole_ = {buffers_.data(), buffers_.size()};
    begin_ns_.resize(depth_);
    for (uint32_t i = 0; i < depth_; ++i) {
      spans_.emplace_back(buffers_.data() + i * stride, load_.page_bytes);
      free_.push_back(i);
    }
    if (load_.passthrough != nullptr) {
      fds_.push_back(load_.passthrough->fd.get());
      return lab::MakePassthroughQueue({&load_.passthrough, 1}, depth_, &queue_);
    }
    for (const RawFile& file : load_.files) fds_.push_back(file.fd.get());
    ReadQueueOptions options;
    options.backend = load_.backend.backend;
    options.depth = depth_;
    options.iopoll = load_.backend.iopoll;
    options.sqpoll = load_.backend.sqpoll;
    options.single_thread = true;
    // A wait follows; in batches of one each request has a system call to itself.
    options.lazy_submit = load_.batch > 1;
    if (load_.backend.registered) {
      options.buffers = {&whole_, 1};
      options.files = fds_;
    }
    return ReadQueue::Create(options, &queue_);
  }
  Status Run(TimedThread* self) {
    const uint32_t batch = std::clamp(load_.batch, 1u, depth_);
    self->Start();
    while (self->Running()) {
      while (!free_.empty()) {
        ENGINE_RACE_RETURN_IF_ERROR(Fill(std::min<size_t>(batch, free_.size())));
      }
      ENGINE_RACE_RETURN_IF_ERROR(Take(batch, &self->tally));
    }
    while (queue_->in_flight() > 0) {
      ENGINE_RACE_RETURN_IF_ERROR(Take(queue_->in_flight(), &self->tally));
    }
    self->Stop();
    return Status::Ok();
  }

 private:
  Status Fill(size_t count) {
    const uint64_t now_ns = NowNs();
    requests_.clear();
    for (size_t i = 0; i < count; ++i) {
      const uint32_t buffer = free_.back();
      free_.pop_back();
      size_t file = 0;
      uint64_t offset = 0;
      picker_.Next(&file, &offset);
      requests_.push_back({fds_[file], load_.page_bytes, offset, spans_[buffer].data(), buffer});
      begin_ns_[buffer] = now_ns;
    }
    size_t started = 0;
    return queue_->Submit(requests_, &started);
  }
  Status Take(uint32_t min_count, TimedTally* tally) {
    completions_.clear();
    ENGINE_RACE_RETURN_IF_ERROR(queue_->Wait(min_count, &completions_));
    const uint64_t now_ns = NowNs();
    for (const ReadCompletion& completion : completions_) {
      if (completion.error != 0) return RequestError("read", completion.error, load_.page_bytes);
      if (completion.read_bytes != load_.page_bytes) return Status::IOError("a read came short");
      const auto buffer = static_cast<uint32_t>(completion.tag);
      tally->latency.Add(now_ns - begin_ns_[buffer]);
      free_.push_back(buffer);
    }
    tally->request_count += completions_.size();
    tally->byte_count += completions_.size() * load_.page_bytes;
    return Status::Ok();
  }

  const RawLoad& load_;
  const uint32_t depth_;
  PagePicker picker_;
  Region buffers_;
  // Registered as one buffer, which is cheaper than one for each request.
  std::span<char> whole_;
  std::vector<std::span<char>> spans_;
  std::vector<int> fds_;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<uint32_t> free_;
  std::vector<uint64_t> begin_ns_;  // of each buffer's request
  std::vector<ReadRequest> requests_;
  std::vector<ReadCompletion> completions_;
};

// One thread of a BlockingLoad.
class BlockingThread {
 public:
  BlockingThread(const BlockingLoad& load, uint32_t number)
      : load_(load), number_(number), picker_(load.files, load.page_bytes, number + 1) {}

  Status Run(TimedThread* self) {
    const size_t size = size_t{load_.page_bytes} * std::max(load_.pages_per_write, 1u);
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size, false, &buffer_));
    std::memset(buffer_.data(), static_cast<int>(number_), size);
    self->Start();
    for (uint64_t i = 0; self->Running(); ++i) {
      const bool is_write = AsBelow(MixAt(number_ + 1000, i), 100) < load_.write_percent;
      ENGINE_RACE_RETURN_IF_ERROR(Step(is_write, &self->tally));
    }
    return Status::Ok();
  }

 private:
  Status Step(bool is_write, TimedTally* tally) {
    size_t file = 0;
    uint64_t offset = 0;
    const uint32_t page_count = is_write ? load_.pages_per_write : 1;
    picker_.Next(&file, &offset, page_count);
    const int fd = load_.files[file].fd.get();
    const size_t size = size_t{page_count} * load_.page_bytes;
    const uint64_t begin_ns = NowNs();
    const ssize_t moved = is_write ? pwrite(fd, buffer_.data(), size, static_cast<off_t>(offset))
                                   : pread(fd, buffer_.data(), size, static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) return Status::Ok();
    if (moved < 0) return RequestError(is_write ? "pwrite" : "pread", errno, load_.page_bytes);
    if (static_cast<size_t>(moved) != size) return Status::IOError("a transfer came short");
    (is_write ? tally->write_latency : tally->latency).Add(NowNs() - begin_ns);
    ++tally->request_count;
    tally->byte_count += size;
    return Status::Ok();
  }

  const BlockingLoad& load_;
  const uint32_t number_;
  PagePicker picker_;
  Region buffer_;
};

}  // namespace

std::vector<RawBackend> RawBackends() {
  return {{"psync", IoBackend::kPsync, false, false, false},
          {"libaio", IoBackend::kLibaio, false, false, false},
          {"io_uring", IoBackend::kIoUring, false, false, false},
          {"io_uring registered", IoBackend::kIoUring, true, false, false},
          {"io_uring iopoll", IoBackend::kIoUring, true, true, false},
          {"io_uring sqpoll", IoBackend::kIoUring, true, false, true}};
}

bool IsPlain(const RawBackend& backend) { return !backend.iopoll && !backend.sqpoll; }

Status ProbeRawBackend(const RawBackend& backend, const RawFile& file) {
  RawLoad load;
  load.files = {&file, 1};
  load.backend = backend;
  load.depth = 1;
  load.seconds = 1e-3;
  TimedPoint point;
  const Status status = RunRawReads(load, &point);
  if (status.ok() || status.code() == Code::kIncomplete) return status;
  const std::string why = status.message().empty() ? status.ToString() : status.message();
  return Status::NotSupported(why);
}

RawBackend EngineRawBackend(const RawFile& file) {
  const std::vector<RawBackend> backends = RawBackends();
  io::File opened;
  io::ReadBackend chosen;
  const auto caching = file.direct ? io::Caching::kDirect : io::Caching::kBuffered;
  const Status probed = io::File::OpenPath(file.name, io::Access::kRead, caching, &opened);
  if (probed.ok() && io::ProbeReadBackend(Options(), opened, &chosen).ok()) {
    for (const RawBackend& backend : backends) {
      if (backend.backend == chosen.backend) return backend;
    }
  }
  return backends.front();
}

Status RunRawReads(const RawLoad& load, TimedPoint* point) {
  const uint32_t depth = std::max(1u, load.depth / load.worker_count);
  return RunTimed(
      load.worker_count, load.seconds,
      [&](uint32_t thread, TimedThread* self) {
        RawWorker worker(load, depth, thread + 1);
        ENGINE_RACE_RETURN_IF_ERROR(worker.Prepare());
        return worker.Run(self);
      },
      point);
}

Status RunBlocking(const BlockingLoad& load, TimedPoint* point) {
  return RunTimed(
      load.thread_count, load.seconds,
      [&](uint32_t thread, TimedThread* self) { return BlockingThread(load, thread).Run(self); },
      point);
}

void PagePicker::Next(size_t* file, uint64_t* offset, uint32_t page_count) {
  *file = count_ % files_.size();
  const uint64_t page_total = files_[*file].size_bytes / page_bytes_;
  *offset = AsBelow(MixAt(seed_, count_), page_total - page_count + 1) * page_bytes_;
  ++count_;
}

Status RequestError(const char* what, int error, uint32_t page_bytes) {
  // EINVAL from direct I/O means a bad size, because all else is aligned.
  if (error == EINVAL || error == EOPNOTSUPP) {
    return Status::NotSupported(std::string(what) + " of " + ByteText(page_bytes) + ": " +
                                std::strerror(error));
  }
  return Status::FromErrno(what, error);
}

namespace {

namespace fs = std::filesystem;

// Raw files are multiples of this, so that pages of every size fit in.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// Noise, so that no device can make the reads cheap by compressing them.
void FillNoise(uint64_t seed, char* data, size_t size_bytes) {
  for (size_t i = 0; i + sizeof(uint64_t) <= size_bytes; i += sizeof(uint64_t)) {
    const uint64_t word = MixAt(seed, i);
    std::memcpy(data + i, &word, sizeof(word));
  }
}

}  // namespace

Status IoSpace::MakeIn(const std::string& parent, std::string* made) {
  *made = made_.emplace_back(parent, 0, "race-io.").path();
  if (!made->empty()) return Status::Ok();
  return Status::InvalidArgument(parent + " is not a directory in which one could be made");
}

Status IoSpace::Prepare() {
  ENGINE_RACE_RETURN_IF_ERROR(MakeIn(options_.parent, &dir_));
  for (const std::string& path : options_.paths) {
    ENGINE_RACE_RETURN_IF_ERROR(MakeIn(path, &paths_.emplace_back()));
  }
  if (!has_stand_ins()) return Status::Ok();
  for (uint32_t i = 0; i < options_.stand_in_count; ++i) {
    const std::string stand_in = dir_ + "/path" + std::to_string(i);
    std::error_code failed;
    fs::create_directory(stand_in, failed);
    if (failed) return Status::FromErrno("mkdir " + stand_in, failed.value());
    paths_.push_back(stand_in);
  }
  return Status::Ok();
}

Status IoSpace::RawFiles(std::span<const RawFile>* files) {
  const uint64_t share_bytes = options_.raw_bytes / paths_.size() / kPieceBytes * kPieceBytes;
  while (files_.size() < paths_.size()) {
    RawFile file;
    ENGINE_RACE_RETURN_IF_ERROR(
        MakeRawFile(paths_[files_.size()] + "/raw", std::max(share_bytes, kPieceBytes), &file));
    files_.push_back(std::move(file));
  }
  *files = files_;
  return Status::Ok();
}

Status IoSpace::MakeRawFile(const std::string& path, uint64_t size_bytes, RawFile* file) {
  const int flags = O_RDWR | O_CREAT | O_TRUNC;
  file->name = path;
  file->size_bytes = size_bytes;
  file->direct = true;
  Status opened = sys::OpenAt(AT_FDCWD, path, flags | O_DIRECT, 0644, &file->fd);
  if (opened.code() == Code::kNotSupported) {
    file->direct = false;
    opened = sys::OpenAt(AT_FDCWD, path, flags, 0644, &file->fd);
  }
  ENGINE_RACE_RETURN_IF_ERROR(std::move(opened));
  Region piece;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kPieceBytes, false, &piece));
  for (uint64_t offset = 0; offset < size_bytes; offset += kPieceBytes) {
    if (Interrupted()) return InterruptedStatus();
    FillNoise(offset, piece.data(), piece.size());
    ENGINE_RACE_RETURN_IF_ERROR(sys::PwriteFull(file->fd.get(), piece.data(), kPieceBytes, offset));
  }
  return sys::Fsync(file->fd.get());
}

}  // namespace engine_race::harness

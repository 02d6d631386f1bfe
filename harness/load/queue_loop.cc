#include "harness/load/queue_loop.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <system_error>

#include "engine_race/base/memory.h"
#include "engine_race/io/file.h"
#include "harness/data/value_maker.h"
#include "harness/measure/timed.h"

namespace harness {
namespace {

using engine_race::Region;
using engine_race::Status;
namespace io = engine_race::io;

// Direct files, a queue, and the memory that its reads fill again and again.
class Pump {
 public:
  Status Open(const std::vector<std::string>& paths, uint64_t memory_bytes, uint32_t batch,
              io::ReadQueueOptions options, bool registers) {
    batch_ = batch;
    depth_ = options.depth;
    files_.resize(paths.size());
    for (size_t i = 0; i < paths.size(); ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(
          io::File::OpenPath(paths[i], io::Access::kRead, io::Caching::kDirect, &files_[i]));
      fds_.push_back(files_[i].fd());
    }
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(memory_bytes, /*huge_pages=*/true, &memory_));
    std::memset(memory_.data(), 1, memory_.size());
    whole_ = {memory_.data(), memory_.size()};
    if (registers) {
      options.buffers = {&whole_, 1};
      options.files = fds_;
      options.lazy_submit = true;
    }
    return io::ReadQueue::Create(options, &queue_);
  }

  // Starts the reads that next(ReadRequest*) gives, until it gives none, and waits for them.
  template <typename Next>
  Status Run(const Next& next, uint64_t* count) {
    bool has_more = true;
    while (has_more || queue_->in_flight() > 0) {
      while (has_more && queue_->in_flight() + batch_ <= depth_) {
        requests_.clear();
        for (io::ReadRequest request; requests_.size() < batch_; requests_.push_back(request)) {
          has_more = next(&request);
          if (!has_more) break;
          if (used_bytes_ + request.size_bytes > memory_.size()) used_bytes_ = 0;
          request.buffer = memory_.data() + used_bytes_;
          used_bytes_ += request.size_bytes;
        }
        size_t started = 0;
        ENGINE_RACE_RETURN_IF_ERROR(queue_->Submit(requests_, &started));
      }
      completions_.clear();
      ENGINE_RACE_RETURN_IF_ERROR(
          queue_->Wait(std::min(batch_, queue_->in_flight()), &completions_));
      for (const io::ReadCompletion& completion : completions_) {
        if (completion.error != 0) return Status::FromErrno("read", completion.error);
      }
      *count += completions_.size();
    }
    return Status::Ok();
  }

  const std::vector<int>& fds() const { return fds_; }

 private:
  uint32_t batch_ = 0;
  uint32_t depth_ = 0;
  std::vector<io::File> files_;
  std::vector<int> fds_;
  Region memory_;
  std::span<char> whole_;
  uint64_t used_bytes_ = 0;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
  // Declared after the memory: the queue's destructor waits for reads into it.
  std::unique_ptr<io::ReadQueue> queue_;
};

// Appends reads of the file's data between holes.
Status PlanReads(int fd, uint32_t read_bytes, std::vector<io::ReadRequest>* plan) {
  for (off_t end = 0;;) {
    const off_t begin = lseek(fd, end, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return Status::Ok();
    if (begin >= 0) end = lseek(fd, begin, SEEK_HOLE);
    if (begin < 0 || end < 0) return Status::FromErrno("lseek", errno);
    for (off_t at = begin; at < end; at += read_bytes) {
      const auto size = static_cast<uint32_t>(std::min<off_t>(read_bytes, end - at));
      plan->push_back({fd, size, static_cast<uint64_t>(at), nullptr, 0});
    }
  }
}

Status ValueFilesIn(const std::string& dir, std::vector<std::string>* paths) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (entry.path().filename().string().starts_with("value_")) paths->push_back(entry.path());
  }
  if (error || paths->empty()) return Status::IOError("no value files in " + dir);
  std::sort(paths->begin(), paths->end());
  return Status::Ok();
}

// Runs body(self) in one thread.
template <typename Body>
Status RunOne(double seconds, const Body& body, TimedRun* run) {
  TimedPoint point;
  const Status status = RunTimed(
      1, seconds, [&](uint32_t, TimedThread* self) { return body(self); }, &point);
  *run = status.ok() ? TimedRun{point.request_count, point.seconds, point.cpu_seconds} : TimedRun();
  return status;
}

}  // namespace

Status RunQueueLoop(const QueueLoop& loop, TimedRun* run) {
  constexpr uint32_t kPageBytes = 4096;
  const auto body = [&](TimedThread* self) {
    Pump pump;
    ENGINE_RACE_RETURN_IF_ERROR(pump.Open(loop.paths, uint64_t{loop.depth} * kPageBytes, loop.batch,
                                          {loop.backend, loop.depth}, /*registers=*/true));
    std::mt19937_64 random(1);
    uint32_t left = 0;  // of the batch, after which the clock is read
    const auto next = [&](io::ReadRequest* request) {
      if (left == 0 && !self->Running()) return false;
      left = (left == 0 ? loop.batch : left) - 1;
      const int fd = pump.fds()[random() % pump.fds().size()];
      *request = {fd, kPageBytes, random() % (loop.bytes_each / kPageBytes) * kPageBytes, nullptr,
                  0};
      return true;
    };
    self->Start();
    const Status status = pump.Run(next, &self->tally.request_count);
    self->Stop();
    return status;
  };
  return RunOne(loop.seconds, body, run);
}

Status ReadValueFiles(const std::string& dir, TimedRun* run, uint32_t read_bytes, uint32_t depth) {
  // More than the reads in flight need, as that of ranges is.
  constexpr uint64_t kMemoryBytes = 64 * 1024 * 1024;
  std::vector<std::string> paths;
  ENGINE_RACE_RETURN_IF_ERROR(ValueFilesIn(dir, &paths));
  std::vector<io::ReadRequest> plan;
  const auto body = [&](TimedThread* self) {
    Pump pump;
    ENGINE_RACE_RETURN_IF_ERROR(pump.Open(paths, kMemoryBytes, std::max(1u, depth / 8),
                                          {engine_race::IoBackend::kAuto, depth},
                                          /*registers=*/false));
    for (const int fd : pump.fds()) ENGINE_RACE_RETURN_IF_ERROR(PlanReads(fd, read_bytes, &plan));
    size_t planned = 0;
    const auto next = [&](io::ReadRequest* request) {
      if (planned == plan.size()) return false;
      *request = plan[planned++];
      return true;
    };
    self->Start();
    const Status status = pump.Run(next, &self->tally.request_count);
    self->Stop();
    return status;
  };
  ENGINE_RACE_RETURN_IF_ERROR(RunOne(kNoLimitSeconds, body, run));
  run->count = 0;
  for (const io::ReadRequest& request : plan) run->count += request.size_bytes / kValueSize;
  return Status::Ok();
}

}  // namespace harness

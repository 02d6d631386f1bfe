#include "harness/load/queue_loop.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>

#include "engine_race/base/memory.h"
#include "engine_race/io/file.h"
#include "harness/measure/timed.h"

namespace harness {
namespace {

using engine_race::Region;
using engine_race::Status;
namespace io = engine_race::io;

constexpr uint32_t kPageBytes = 4096;

class Loop {
 public:
  explicit Loop(const QueueLoop& loop) : loop_(loop) {}

  Status Run(TimedThread* self) {
    ENGINE_RACE_RETURN_IF_ERROR(Prepare());
    self->Start();
    while (self->Running()) ENGINE_RACE_RETURN_IF_ERROR(Step(&self->tally.request_count));
    self->Stop();
    return Status::Ok();
  }

 private:
  Status Prepare() {
    files_.resize(loop_.paths.size());
    for (size_t i = 0; i < files_.size(); ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(
          io::File::OpenPath(loop_.paths[i], io::Access::kRead, io::Caching::kDirect, &files_[i]));
      fds_.push_back(files_[i].fd());
    }
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(uint64_t{loop_.depth} * kPageBytes, /*huge_pages=*/false, &buffers_));
    const std::span<char> all_buffers(buffers_.data(), buffers_.size());
    io::ReadQueueOptions options;
    options.backend = loop_.backend;
    options.depth = loop_.depth;
    options.buffers = {&all_buffers, 1};
    options.files = fds_;
    options.lazy_submit = true;
    ENGINE_RACE_RETURN_IF_ERROR(io::ReadQueue::Create(options, &queue_));
    for (uint32_t i = 0; i < loop_.depth; ++i) free_.push_back(i);
    return Status::Ok();
  }

  // Fills the queue, a batch at a time, and waits for the next batch.
  Status Step(uint64_t* count) {
    while (free_.size() >= std::min(loop_.batch, loop_.depth)) {
      requests_.clear();
      for (uint32_t i = 0; i < loop_.batch && !free_.empty(); ++i) {
        const uint32_t tag = free_.back();
        free_.pop_back();
        requests_.push_back({fds_[random_() % fds_.size()], kPageBytes,
                             random_() % (loop_.bytes_each / kPageBytes) * kPageBytes,
                             buffers_.data() + uint64_t{tag} * kPageBytes, tag});
      }
      size_t started = 0;
      ENGINE_RACE_RETURN_IF_ERROR(queue_->Submit(requests_, &started));
    }
    completions_.clear();
    ENGINE_RACE_RETURN_IF_ERROR(queue_->Wait(loop_.batch, &completions_));
    for (const io::ReadCompletion& completion : completions_) {
      if (completion.error != 0) return Status::FromErrno("read", completion.error);
      free_.push_back(static_cast<uint32_t>(completion.tag));
    }
    *count += completions_.size();
    return Status::Ok();
  }

  const QueueLoop& loop_;
  std::mt19937_64 random_{1};
  std::vector<io::File> files_;
  std::vector<int> fds_;
  Region buffers_;
  std::vector<uint32_t> free_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
  // Declared after the buffers: the queue's destructor waits for reads into them.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace

TimedRun RunQueueLoop(const QueueLoop& loop, std::string* error) {
  TimedPoint point;
  const Status status = RunTimed(
      1, loop.seconds, [&](uint32_t, TimedThread* self) { return Loop(loop).Run(self); }, &point);
  *error = status.ok() ? "" : status.ToString();
  if (!status.ok()) return TimedRun();
  return {point.request_count, point.seconds, point.cpu_seconds};
}

}  // namespace harness

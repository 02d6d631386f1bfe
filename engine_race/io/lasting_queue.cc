#include "engine_race/io/lasting_queue.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/io/read_queue_backends.h"

namespace engine_race::io {

LastingQueue::LastingQueue(const ReadQueueOptions& options, FailedBackends* failed)
    : ReadQueue(options.depth),
      options_(options),
      buffers_(options.buffers.begin(), options.buffers.end()),
      files_(options.files.begin(), options.files.end()),
      failed_(*failed) {
  options_.buffers = buffers_;
  options_.files = files_;
  slots_.resize(depth_);
  free_.resize(depth_);
  for (uint32_t i = 0; i < depth_; ++i) free_[i] = depth_ - 1 - i;
  requests_.reserve(depth_);
  done_.reserve(depth_);
  ready_.reserve(depth_);
}

Status LastingQueue::Create(const ReadQueueOptions& options, FailedBackends* failed,
                            std::unique_ptr<ReadQueue>* queue) {
  try {
    std::unique_ptr<LastingQueue> made(new LastingQueue(options, failed));
    ENGINE_RACE_RETURN_IF_ERROR(made->MakeQueue());
    *queue = std::move(made);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("read queue");
  }
  return Status::Ok();
}

Status LastingQueue::MakeQueue() {
  ReadQueueOptions wanted = options_;
  wanted.backend = failed_.InPlaceOf(options_.backend);
  has_read_ = false;
  return CreateOrNextBest(wanted, &queue_, &backend_);
}

const char* LastingQueue::name() const {
  return queue_ != nullptr ? queue_->name() : BackendName(failed_.InPlaceOf(options_.backend));
}

void LastingQueue::Finish(uint32_t slot, const ReadCompletion& completion) {
  ENGINE_RACE_ASSERT(slots_[slot].is_used);
  ready_.push_back(completion);
  ready_.back().tag = slots_[slot].request.tag;
  slots_[slot].is_used = false;
  free_.push_back(slot);
}

Status LastingQueue::Submit(std::span<const ReadRequest> requests, size_t* started) {
  *started = 0;
  ENGINE_RACE_RETURN_IF_ERROR(CheckRoomFor(requests.size()));
  requests_.clear();
  for (const ReadRequest& request : requests) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = {request, true};
    requests_.push_back(request);
    requests_.back().tag = slot;
  }
  in_flight_ += static_cast<uint32_t>(requests.size());
  *started = requests.size();
  if (failure_.ok()) {
    // The words of a failure take memory, which may be refused, too. The next Wait replaces a queue
    // that fails, because this call may not block on the device.
    failure_ = Guarded([this] {
      if (queue_ == nullptr) ENGINE_RACE_RETURN_IF_ERROR(MakeQueue());
      size_t queue_started = 0;
      return queue_->Submit(requests_, &queue_started);
    });
  }
  return Status::Ok();
}

Status LastingQueue::Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) {
  ENGINE_RACE_RETURN_IF_ERROR(ReserveFor(completions));
  if (in_flight_ > 0 && failure_.ok()) {
    done_.clear();
    const uint32_t wanted = std::min(min_count, in_flight_);
    failure_ = Guarded([&] { return queue_->Wait(wanted, &done_); });
    has_read_ = has_read_ || !done_.empty();
    for (const ReadCompletion& done : done_) Finish(static_cast<uint32_t>(done.tag), done);
  }
  if (!failure_.ok()) ReadAgain();
  HandOut(&ready_, completions);
  return Status::Ok();
}

void LastingQueue::ReadAgain() {
  // No queue could be made: then no back end has failed.
  if (queue_ != nullptr) failed_.Note(backend_, has_read_, failure_);
  failure_ = Status::Ok();
  // Waits until nothing is written into the buffers any more.
  queue_.reset();
  for (uint32_t slot = 0; slot < depth_; ++slot) {
    if (slots_[slot].is_used) Finish(slot, ReadBlocking(slots_[slot].request, ReadProgress()));
  }
}

}  // namespace engine_race::io

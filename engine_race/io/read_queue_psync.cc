// Blocking preads by a small pool of threads: the back end that works everywhere.
//
// Threads are started as requests come. Where none can be had, the owner reads in Wait itself.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "engine_race/base/thread_name.h"
#include "engine_race/io/read_queue_backends.h"

namespace engine_race::io {

namespace {

constexpr uint32_t kMaxThreads = 16;

class PsyncQueue final : public ReadQueue {
 public:
  explicit PsyncQueue(uint32_t depth) : ReadQueue(depth), waiting_(depth) {
    finished_.reserve(depth);
    threads_.reserve(std::min(depth, kMaxThreads));
  }
  ~PsyncQueue() override;

  Status Submit(std::span<const ReadRequest> requests, size_t* started) override;
  Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) override;
  const char* name() const override { return "psync"; }

 private:
  void StartThreads(uint32_t wanted);
  void Work();
  ReadRequest PopWaiting();

  std::vector<std::thread> threads_;  // the owner's alone

  std::mutex mutex_;
  std::condition_variable work_;      // waiting_ has grown, or stop_
  std::condition_variable progress_;  // finished_ has grown
  // A ring of depth_ requests that no thread has taken yet.
  std::vector<ReadRequest> waiting_;
  uint32_t waiting_begin_ = 0;
  uint32_t waiting_count_ = 0;
  std::vector<ReadCompletion> finished_;
  uint32_t wanted_count_ = 0;  // how many finished reads the owner waits for
  bool stop_ = false;
};

PsyncQueue::~PsyncQueue() {
  {
    std::lock_guard lock(mutex_);
    // A request that nobody has taken touches no buffer any more.
    waiting_count_ = 0;
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PsyncQueue::StartThreads(uint32_t wanted) {
  wanted = std::min({wanted, depth_, kMaxThreads});
  while (threads_.size() < wanted) {
    try {
      threads_.push_back(StartThread("er-pread", [this] { Work(); }));
    } catch (const std::exception&) {
      return;
    }
  }
}

ReadRequest PsyncQueue::PopWaiting() {
  const ReadRequest request = waiting_[waiting_begin_];
  waiting_begin_ = (waiting_begin_ + 1) % depth_;
  --waiting_count_;
  return request;
}

void PsyncQueue::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || waiting_count_ > 0; });
    if (stop_) return;
    const ReadRequest request = PopWaiting();
    lock.unlock();
    const ReadCompletion completion = ReadBlocking(request, ReadProgress());
    lock.lock();
    finished_.push_back(completion);
    if (wanted_count_ > 0 && finished_.size() >= wanted_count_) progress_.notify_one();
  }
}

Status PsyncQueue::Submit(std::span<const ReadRequest> requests, size_t* started) {
  *started = 0;
  ENGINE_RACE_RETURN_IF_ERROR(CheckRoomFor(requests.size()));
  in_flight_ += static_cast<uint32_t>(requests.size());
  StartThreads(in_flight_);
  {
    std::lock_guard lock(mutex_);
    for (const ReadRequest& request : requests) {
      waiting_[(waiting_begin_ + waiting_count_) % depth_] = request;
      ++waiting_count_;
    }
  }
  if (requests.size() >= threads_.size()) {
    work_.notify_all();
  } else {
    for (size_t i = 0; i < requests.size(); ++i) work_.notify_one();
  }
  *started = requests.size();
  return Status::Ok();
}

Status PsyncQueue::Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) {
  ENGINE_RACE_RETURN_IF_ERROR(ReserveFor(completions));
  const uint32_t wanted = std::min(min_count, in_flight_);
  std::unique_lock lock(mutex_);
  while (threads_.empty() && waiting_count_ > 0 && finished_.size() < std::max(wanted, 1u)) {
    finished_.push_back(ReadBlocking(PopWaiting(), ReadProgress()));
  }
  wanted_count_ = wanted;
  progress_.wait(lock, [this, wanted] { return finished_.size() >= wanted; });
  wanted_count_ = 0;
  HandOut(&finished_, completions);
  return Status::Ok();
}

}  // namespace

Status MakePsyncQueue(uint32_t depth, std::unique_ptr<ReadQueue>* queue) {
  try {
    *queue = std::make_unique<PsyncQueue>(depth);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("read queue");
  }
  return Status::Ok();
}

}  // namespace engine_race::io

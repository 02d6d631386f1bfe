// Experiment 5: which threads talk to the devices. Workers need pages; executors have the rings
// that read them. All three models run the same loop. A request goes to the ring of an I/O thread,
// to that of the worker that owns the path, or to the worker's own.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/read_queue.h"
#include "harness/experiments/io/lab.h"
#include "harness/measure/timed.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

using io::ReadCompletion;
using io::ReadQueue;
using io::ReadRequest;

constexpr uint32_t kWorkers = 2;
constexpr uint32_t kSlotsPerWorker = 64;
constexpr uint32_t kPageBytes = 4096;
// Completions that an executor waits for at once.
constexpr uint32_t kModelBatch = 8;

// Who executes a request: the threads beyond the workers, or one of the workers.
struct Model {
  const char* name;
  uint32_t io_thread_count;
  uint32_t (*executor)(uint32_t worker, size_t file, uint32_t io_thread_count);
};

uint32_t IoThreadOf(uint32_t /*worker*/, size_t file, uint32_t io_thread_count) {
  return kWorkers + static_cast<uint32_t>(file) % io_thread_count;
}
uint32_t OwnerOf(uint32_t /*worker*/, size_t file, uint32_t /*io_thread_count*/) {
  return static_cast<uint32_t>(file) % kWorkers;
}
uint32_t ItselfOf(uint32_t worker, size_t /*file*/, uint32_t /*io_thread_count*/) { return worker; }

constexpr Model kModels[] = {{"dedicated I/O thread", 1, IoThreadOf},
                             {"2 dedicated I/O threads", 2, IoThreadOf},
                             {"each path owned by a worker", 0, OwnerOf},
                             {"all-to-all", 0, ItselfOf}};

// A request on its way to its executor, or back when it is done.
struct Message {
  uint32_t worker = 0;
  uint32_t slot = 0;
  size_t file = 0;
  uint64_t offset = 0;
  bool is_done = false;
};

// Messages for one thread, from any other.
class Inbox {
 public:
  void Put(std::vector<Message>* messages) {
    if (messages->empty()) return;
    {
      const std::lock_guard lock(mutex_);
      messages_.insert(messages_.end(), messages->begin(), messages->end());
    }
    messages->clear();
    arrived_.notify_one();
  }

  // Waits a moment when there is none, but not for ever: no message announces the end of the point.
  void Take(bool may_wait, std::vector<Message>* messages) {
    messages->clear();
    std::unique_lock lock(mutex_);
    if (may_wait) {
      arrived_.wait_for(lock, std::chrono::milliseconds(2), [this] { return !messages_.empty(); });
    }
    messages->swap(messages_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> messages_;
};

// The data that the threads of a model share.
struct Shared {
  const Model& model;
  std::span<const RawFile> files;
  RawBackend backend;
  // Pages of every worker's slots. Outlives the queues that read into them.
  Region buffers;
  std::vector<Inbox> inboxes;
  // Workers that may still send requests.
  std::atomic<uint32_t> active{kWorkers};
  std::atomic<bool> failed{false};

  uint32_t thread_count() const { return kWorkers + model.io_thread_count; }
  char* BufferOf(uint32_t worker, uint32_t slot) const {
    return buffers.data() + (size_t{worker} * kSlotsPerWorker + slot) * kPageBytes;
  }
};

class ModelThread {
 public:
  ModelThread(Shared* shared, uint32_t number)
      : shared_(shared),
        number_(number),
        picker_(shared->files, kPageBytes, number + 1),
        outboxes_(shared->thread_count()) {}

  Status Run(TimedThread* self) {
    ENGINE_RACE_RETURN_IF_ERROR(Prepare());
    self->Start();
    bool may_wait = false;
    while (shared_->active > 0 && !shared_->failed) {
      shared_->inboxes[number_].Take(may_wait, &arrived_);
      for (const Message& message : arrived_) {
        if (message.is_done) {
          Finish(message.slot, &self->tally);
        } else {
          to_do_.push_back(message);
        }
      }
      if (is_worker()) {
        if (self->Running()) {
          Generate();
        } else {
          Retire();
        }
      }
      SendAll();
      if (has_queue()) ENGINE_RACE_RETURN_IF_ERROR(Submit());
      // Without requests of its own to wait for, a thread waits for messages.
      may_wait = !has_queue() || queue_->in_flight() == 0;
      if (!may_wait) {
        ENGINE_RACE_RETURN_IF_ERROR(Reap(&self->tally));
        SendAll();
      }
    }
    self->Stop();
    return Status::Ok();
  }

 private:
  bool is_worker() const { return number_ < kWorkers; }
  bool has_queue() const { return shared_->model.io_thread_count == 0 || !is_worker(); }

  Status Prepare() {
    if (is_worker()) {
      for (uint32_t i = 0; i < kSlotsPerWorker; ++i) free_.push_back(i);
    }
    if (!has_queue()) return Status::Ok();
    io::ReadQueueOptions options;
    options.backend = shared_->backend.backend;
    options.depth = kWorkers * kSlotsPerWorker;
    options.single_thread = true;
    options.lazy_submit = true;
    return ReadQueue::Create(options, &queue_);
  }
  void Generate() {
    const uint64_t now_ns = NowNs();
    while (!free_.empty()) {
      Message message;
      message.worker = number_;
      message.slot = free_.back();
      free_.pop_back();
      picker_.Next(&message.file, &message.offset);
      begin_ns_[message.slot] = now_ns;
      const uint32_t executor =
          shared_->model.executor(number_, message.file, shared_->model.io_thread_count);
      (executor == number_ ? to_do_ : outboxes_[executor]).push_back(message);
    }
  }
  void Finish(uint32_t slot, TimedTally* tally) {
    tally->latency.Add(NowNs() - begin_ns_[slot]);
    ++tally->request_count;
    tally->byte_count += kPageBytes;
    free_.push_back(slot);
  }
  void SendAll() {
    for (uint32_t i = 0; i < outboxes_.size(); ++i) shared_->inboxes[i].Put(&outboxes_[i]);
  }
  Status Submit() {
    if (to_do_.empty()) return Status::Ok();
    requests_.clear();
    for (const Message& message : to_do_) {
      requests_.push_back({shared_->files[message.file].fd.get(), kPageBytes, message.offset,
                           shared_->BufferOf(message.worker, message.slot),
                           uint64_t{message.worker} << 32 | message.slot});
    }
    to_do_.clear();
    size_t started = 0;
    return queue_->Submit(requests_, &started);
  }
  Status Reap(TimedTally* tally) {
    completions_.clear();
    ENGINE_RACE_RETURN_IF_ERROR(
        queue_->Wait(std::min(kModelBatch, queue_->in_flight()), &completions_));
    for (const ReadCompletion& completion : completions_) {
      if (completion.error != 0) return RequestError("read", completion.error, kPageBytes);
      Message message;
      message.worker = static_cast<uint32_t>(completion.tag >> 32);
      message.slot = static_cast<uint32_t>(completion.tag);
      message.is_done = true;
      if (message.worker == number_) {
        Finish(message.slot, tally);
      } else {
        outboxes_[message.worker].push_back(message);
      }
    }
    return Status::Ok();
  }
  void Retire() {
    if (is_retired_ || free_.size() < kSlotsPerWorker) return;
    is_retired_ = true;
    --shared_->active;
  }

  Shared* const shared_;
  const uint32_t number_;
  PagePicker picker_;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<uint32_t> free_;
  uint64_t begin_ns_[kSlotsPerWorker] = {};
  bool is_retired_ = false;
  std::vector<Message> arrived_;
  std::vector<Message> to_do_;
  std::vector<std::vector<Message>> outboxes_;
  std::vector<ReadRequest> requests_;
  std::vector<ReadCompletion> completions_;
};

Status RunModel(const IoLab& lab, const Model& model, std::span<const RawFile> files,
                const RawBackend& backend, TimedPoint* point) {
  Shared shared{model, files, backend, {}, std::vector<Inbox>(kWorkers + model.io_thread_count)};
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(size_t{kWorkers} * kSlotsPerWorker * kPageBytes, false, &shared.buffers));
  return RunTimed(
      shared.thread_count(), lab.seconds(),
      [&](uint32_t thread, TimedThread* self) {
        Status status = ModelThread(&shared, thread).Run(self);
        // Without the flag the others would wait for its messages.
        if (!status.ok()) shared.failed = true;
        return status;
      },
      point);
}

}  // namespace

Experiments IoModels(const IoLab& lab) {
  const auto measure = [&](std::span<const RawFile> files, Experiment* experiment) {
    const RawBackend backend = EngineRawBackend(files.front());
    experiment->notes.push_back("through " + backend.name);
    for (const Model& model : kModels) {
      lab.Measure(experiment,
                  {{"model", model.name}, {"threads", kWorkers + model.io_thread_count}},
                  [&](TimedPoint* point) { return RunModel(lab, model, files, backend, point); });
    }
  };
  return {lab.OverFiles(
      lab.Begin(5, "I/O models", "Who should talk to the devices?",
                "a 4 KiB random read, 2 workers with 64 in flight each, round-robin over the paths",
                {"bar", "model", {}, {"requests_per_second", "cpu_ns_per_request", "p99_ns"}}),
      measure)};
}

}  // namespace engine_race::harness

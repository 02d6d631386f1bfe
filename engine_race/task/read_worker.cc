#include "engine_race/task/read_worker.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/parallel.h"
#include "engine_race/io/lasting_queue.h"

namespace engine_race {

uint32_t ReadWorker::WorkerCount(const Options& options, const ValueLayout& layout) {
  const uint32_t wanted = options.worker_count != 0 ? options.worker_count : AvailableCpuCount();
  if (BufferBytes(layout) <= 2 * format::kIndexBlockBytes) return wanted;
  const uint64_t max_bytes = options.memory_budget_bytes / kBudgetFraction;
  const uint64_t least_bytes = uint64_t{kLeastTasks} * BufferBytes(layout);
  return static_cast<uint32_t>(std::clamp<uint64_t>(max_bytes / least_bytes, 1, wanted));
}

uint32_t ReadWorker::TaskCount(const Options& options, const ValueLayout& layout) {
  const uint64_t budget_bytes =
      options.memory_budget_bytes / kBudgetFraction / WorkerCount(options, layout);
  const uint64_t block_bytes = uint64_t{options.tasks_per_worker} * format::kIndexBlockBytes;
  const uint64_t max_bytes = std::max(std::min(kMaxBufferBytes, budget_bytes), block_bytes);
  const uint64_t count = std::max<uint64_t>(max_bytes / BufferBytes(layout), kLeastTasks);
  return static_cast<uint32_t>(std::min<uint64_t>(count, options.tasks_per_worker));
}

Status ReadWorker::Prepare() {
  if (scheduler_ != nullptr) return Status::Ok();
  if (buffers_.buffer_count() == 0) {
    ENGINE_RACE_RETURN_IF_ERROR(buffers_.Allocate(BufferBytes(reader_.layout()), task_count_,
                                                  /*huge_pages=*/false,
                                                  reader_.placement().memory()));
  }
  ENGINE_RACE_ASSERT(buffers_.free_count() == task_count_);
  const std::span<char> all_buffers(buffers_.base(), buffers_.size_bytes());
  io::ReadQueueOptions wanted;
  wanted.backend = options_.io_backend;
  wanted.depth = task_count_;
  wanted.iopoll = options_.io_uring_iopoll;
  wanted.sqpoll = options_.io_uring_sqpoll;
  wanted.buffers = {&all_buffers, 1};
  wanted.files = files_;
  wanted.lazy_submit = true;
  std::unique_ptr<io::ReadQueue> queue;
  ENGINE_RACE_RETURN_IF_ERROR(io::LastingQueue::Create(wanted, reader_.failed_backends(), &queue));
  scheduler_ = std::make_unique<Scheduler>(std::move(queue));
  return Status::Ok();
}

bool ReadWorker::Run(ReadSource* source) noexcept {
  source_ = source;
  if (Guarded([this] { return Prepare(); }).ok()) return RunTasks();
  RunBlocking();
  return true;
}

// Runs tasks until the source has no more jobs. False when the worker was handed over. Else no task
// is left.
bool ReadWorker::RunTasks() noexcept {
  Scheduler& scheduler = *scheduler_;
  ReadJob job;
  while (true) {
    while (scheduler.task_count() < task_count_ && source_->Next(&job)) {
      if (!scheduler.Spawn(ReadMany(scheduler, *this, job)).ok()) {
        source_->Done(job, Status(Code::kOutOfMemory, {}));
      }
      // The device gets its first reads before all tasks have begun.
      if (scheduler.has_batch()) scheduler.Poll();
    }
    l1::FrameCache* const blocks = reader_.index().frames();
    l1::FrameCache* const values = reader_.value_cache();
    EvictAhead(blocks);
    if (values != blocks) EvictAhead(values);
    // Relaxed: a statistic.
    memory_bytes_.store(buffers_.size_bytes() + scheduler.memory_bytes(),
                        std::memory_order_relaxed);
    if (scheduler.task_count() == 0) return true;
    scheduler.RunOnce();
    if (source_->HandOver(this)) return false;
  }
}

// Evicts a few frames while reads are in flight, so that no admission has to wait for readers.
void ReadWorker::EvictAhead(l1::FrameCache* frames) noexcept {
  if (frames == nullptr || !frames->RunsLow()) return;
  // If memory is refused, an admission evicts for itself.
  (void)scheduler_->Spawn(EvictSome(*scheduler_, *frames));
}

Task ReadWorker::EvictSome(Scheduler&, l1::FrameCache& frames) {
  frames.EvictSome();
  co_return;
}

// One of the many tasks of a worker: reads one job after another while there are any. It ends after
// a row of hot values, because other tasks' reads may wait to be submitted. Another task goes on.
Task ReadWorker::ReadMany(Scheduler& scheduler, ReadWorker& worker, ReadJob job) {
  // There are at least as many buffers as tasks.
  uint32_t number = 0;
  const bool taken = worker.buffers_.TakeOne(&number);
  ENGINE_RACE_ASSERT(taken);
  char* const buffer = worker.buffers_.data(number);
  uint32_t hot_row = 0;
  do {
    PointReader::Found found;
    BlockLookup lookup;
    Status status = worker.Begin(job, &found, &lookup, buffer);
    while (status.code() == Code::kIncomplete) {
      const io::ReadCompletion read =
          co_await scheduler.Read(worker.reader_.index().RequestFor(lookup, buffer));
      status = worker.Accept(job, read, buffer, &lookup);
      if (status.ok()) status = worker.Begin(job, &found, &lookup, buffer);
    }
    if (status.ok()) {
      io::ReadCompletion completion;
      if (!found.staged && !found.delivered) {
        completion = co_await scheduler.Read(worker.reader_.RequestFor(found, buffer));
      }
      status = worker.End(job, found, completion, buffer);
    }
    hot_row = found.delivered ? hot_row + 1 : 0;
    worker.source_->Done(job, std::move(status));
  } while (hot_row < kMaxHotRow && worker.source_->Next(&job));
  worker.buffers_.GiveOne(number);
}

Status ReadWorker::Begin(const ReadJob& job, PointReader::Found* found, BlockLookup* lookup,
                         char* buffer) const noexcept {
  return Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(
        reader_.Find(job.key, job.version, found, lookup, job.value, job.window));
    if (!found->staged) return Status::Ok();
    const Status read = reader_.ReadBlocking(*found, buffer);
    // Deliver sees that the slot was used again, and reads anew.
    return read.ok() || reader_.CheckFresh(*found).ok() ? read : Status::Ok();
  });
}

Status ReadWorker::Accept(const ReadJob& job, const io::ReadCompletion& completion, char* buffer,
                          BlockLookup* lookup) const noexcept {
  // The queue may not work for this file: that says nothing about the block.
  const bool is_read = completion.error == 0 && completion.read_bytes == format::kIndexBlockBytes;
  return reader_.index().Accept(job.key, buffer, is_read, lookup);
}

Status ReadWorker::End(const ReadJob& job, const PointReader::Found& found,
                       const io::ReadCompletion& completion, char* buffer) const noexcept {
  if (found.delivered) return Status::Ok();
  return Guarded([&] {
    const Status read = found.staged ? Status::Ok() : reader_.Check(found, completion);
    // A slot that was used again may not even be there any more. Deliver reads anew then.
    if (!read.ok() && reader_.CheckFresh(found).ok()) return read;
    return reader_.Deliver(job.key, found, buffer, job.value);
  });
}

void ReadWorker::RunBlocking() noexcept {
  ReadJob job;
  while (source_->Next(&job)) {
    source_->Done(job, Guarded([&] { return reader_.Read(job.key, job.value, job.version); }));
  }
}

}  // namespace engine_race

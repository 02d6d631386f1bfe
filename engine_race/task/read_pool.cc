#include "engine_race/task/read_pool.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/thread_name.h"

namespace engine_race {

namespace {

// The posted reads that must wait before another thread is woken for them.
constexpr size_t kCrowd = 32;

// The memory of a read in flight beside its buffer: coroutine frame, request and bookkeeping.
constexpr uint64_t kTaskBytes = 1024;

// The memory of a posted read, without what its function holds beside it.
constexpr uint64_t kPostedBytes = 128;
static_assert(sizeof(PostedRead) + 2 * sizeof(void*) <= kPostedBytes);

// The default limit of pending reads: for each read that the workers keep in flight, and the least.
// It keeps the device busy while functions run, and lets a store close soon.
constexpr uint64_t kPostedPerTask = 2;
constexpr uint64_t kLeastPostedLimit = 1024;

}  // namespace

// Gives jobs to one worker while one thread runs it.
class ReadPool::Source final : public ReadSource {
 public:
  // `own` is null for a thread of the pool.
  Source(ReadPool* pool, ReadBatch* own) : pool_(pool), keys_(pool->reader_.keys()), own_(own) {}

  bool Next(ReadJob* job) noexcept override {
    while (!turn_.empty() || BeginTurn()) {
      *job = turn_.Pop();
      if (job->value.is_set() && keys_.Contains(job->key)) [[likely]] {
        if (job->posted != nullptr) ++posted_in_flight_;
        ENGINE_RACE_ASSERT(next_window_ < windows_.size());
        job->window = windows_[next_window_++];
        return true;
      }
      // Store::ReadAsync has checked the keys of posted reads.
      ENGINE_RACE_ASSERT(job->posted == nullptr);
      pool_->Answer(*job, job->batch->CheckKey(keys_, job->index));
    }
    return false;
  }

  void Done(const ReadJob& job, Status status) noexcept override {
    if (job.posted == nullptr) return pool_->Answer(job, std::move(status));
    // The function may need locks that a caller of MultiRead holds, so such a caller never calls
    // it.
    if (own_ != nullptr) return pool_->Defer(job.posted, std::move(status));
    --posted_in_flight_;
    pool_->CallDone(std::unique_ptr<PostedRead>(job.posted), status);
  }

  // When the batch of a caller is done, the next caller finishes the reads that are still in flight
  // for others. So the device's queue stays full between two calls. A thread of the pool gives its
  // worker to a caller when it has no posted reads left.
  bool HandOver(ReadWorker* worker) noexcept override {
    if (!turn_.empty()) return false;
    const bool is_done = own_ != nullptr ? own_->all_answered() : posted_in_flight_ == 0;
    return is_done && pool_->HandOver(worker);
  }

 private:
  bool BeginTurn() noexcept {
    if (!TakeTurn()) return false;
    std::array<uint64_t, ReadTurns::kTurnJobs> keys;
    size_t count = 0;
    turn_.ForEachKey([&](uint64_t key) {
      if (keys_.Contains(key)) keys[count++] = key;
    });
    pool_->reader_.index().Prefetch({keys.data(), count}, windows_);
    next_window_ = 0;
    return true;
  }
  bool TakeTurn() noexcept {
    if (own_ == nullptr) {
      pool_->CallDeferred();
      return pool_->TakeTurn(&turn_);
    }
    if (own_->all_answered()) return false;
    if (!own_is_next_ && pool_->TakeTurn(&turn_)) {
      own_is_next_ = true;
      return true;
    }
    own_is_next_ = false;
    return ReadTurns::TakeOwn(own_, &turn_) || pool_->TakeTurn(&turn_);
  }

  ReadPool* const pool_;
  const KeyRange keys_;
  ReadBatch* const own_;
  Turn turn_;
  // windows_[i] is for the i-th key of the turn that is looked up. Next and BeginTurn leave out the
  // same jobs.
  std::array<RunWindow, ReadTurns::kTurnJobs> windows_;
  size_t next_window_ = 0;
  // At first the ring has its turn, because the worker's last turn may have been for its former
  // owner's batch.
  bool own_is_next_ = false;
  // Counts for a thread of the pool, which never gets a worker with posted reads in flight.
  uint32_t posted_in_flight_ = 0;
};

ReadPool::ReadPool(const PointReader& reader, const Options& options, std::vector<int> files,
                   OpStats* stats)
    : reader_(reader),
      options_(options),
      stats_(stats),
      bound_(PostedLimit(options), options.async_read_waits),
      files_(std::move(files)) {
  const uint32_t count = ReadWorker::WorkerCount(options, reader_.layout());
  idle_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<ReadWorker>(reader_, options_, files_));
    idle_.push_back(workers_.back().get());
  }
  // Callers run workers, too, wherever they are: only the pool's own threads are bound.
  max_thread_count_ =
      options.worker_count != 0
          ? count
          : numa::StorePlacement::LimitTo(reader_.placement().device_thread_cpus(), count);
  threads_.reserve(max_thread_count_);
}

ReadPool::~ReadPool() { Close(); }

void ReadPool::Close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  thread_needed_.notify_all();
  // No thread is started any more, so no other thread changes the list.
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

uint64_t ReadPool::memory_bytes() const {
  uint64_t bytes = bound_.pending_count() * kPostedBytes;
  for (const std::unique_ptr<ReadWorker>& worker : workers_) bytes += worker->memory_bytes();
  return bytes;
}

uint32_t ReadPool::PostedLimit(const Options& options) {
  if (options.async_read_limit != 0) return options.async_read_limit;
  // Of values of any size: posted reads have no buffers.
  const uint64_t task_count =
      uint64_t{ReadWorker::WorkerCount(options, ValueLayout())} * options.tasks_per_worker;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(kPostedPerTask * task_count, kLeastPostedLimit, kMaxAsyncReadLimit));
}

uint64_t ReadPool::MaxMemoryBytes(const Options& options, const ValueLayout& layout) {
  const uint64_t task_count =
      uint64_t{ReadWorker::WorkerCount(options, layout)} * ReadWorker::TaskCount(options, layout);
  return task_count * (ReadWorker::BufferBytes(layout) + kTaskBytes) +
         PostedLimit(options) * kPostedBytes;
}

ReadWorker* ReadPool::TakeIdle() {
  if (idle_.empty()) return nullptr;
  ReadWorker* const worker = idle_.back();
  idle_.pop_back();
  return worker;
}

// Gives the worker to the caller of the waiting batch whose turn is next.
bool ReadPool::Grant(ReadWorker* worker) {
  ReadBatch* const batch = turns_.PopBatch();
  if (batch == nullptr) return false;
  ENGINE_RACE_ASSERT(batch->granted == nullptr && !batch->finished);
  batch->granted = worker;
  batch->changed.notify_one();
  return true;
}

bool ReadPool::HandOver(ReadWorker* worker) noexcept {
  if (!turns_.has_waiting()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return Grant(worker);
}

void ReadPool::GiveBack(ReadWorker* worker) {
  if (Grant(worker)) return;
  ENGINE_RACE_ASSERT(idle_.size() < workers_.size());
  idle_.push_back(worker);
  WakeThread();
}

void ReadPool::MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                         std::span<Status> statuses, uint64_t version) {
  if (keys.empty()) return;
  ReadBatch batch(keys, values, statuses, version);
  RunBatch(&batch);
}

void ReadPool::MultiRead(std::span<const uint64_t> keys, char* rows, std::span<Code> codes,
                         uint64_t version) {
  if (keys.empty()) return;
  ReadBatch batch(keys, rows, reader_.layout().value_bytes(), codes, version);
  RunBatch(&batch);
}

// Waits until every key of the batch is answered.
void ReadPool::RunBatch(ReadBatch* batch) {
  std::unique_lock<std::mutex> lock(mutex_);
  batch->granted = TakeIdle();
  if (batch->granted == nullptr) {
    turns_.Add(batch);
    batch->changed.wait(lock, [batch] { return batch->granted != nullptr || batch->finished; });
  }
  if (batch->granted != nullptr) {
    lock.unlock();
    Source source(this, batch);
    const bool is_held = batch->granted->Run(&source);
    lock.lock();
    if (is_held) GiveBack(batch->granted);
  }
  // Another worker may still be reading some of its keys.
  batch->changed.wait(lock, [batch] { return batch->finished; });
}

Status ReadPool::Post(std::unique_ptr<PostedRead> read) {
  if (stats_ != nullptr && stats_->async_reads.on()) read->began_ns = MonotonicNs();
  ENGINE_RACE_RETURN_IF_ERROR(bound_.Take());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) {
      bound_.Give();
      return Status::InvalidArgument("the store is being closed");
    }
    if (!threads_.empty() || StartThread()) {
      turns_.Post(read.release());
      WakeThread();
      return Status::Ok();
    }
  }
  // The pool has no thread and can start none, so this thread reads the key.
  const Status status = Guarded([&] { return reader_.Read(read->key, read->value); });
  CallDone(std::move(read), status);
  return Status::Ok();
}

// Wakes or starts a thread for posted and deferred reads, and another one if many posted reads
// wait. If no worker is idle, the threads that run the workers take the posted reads.
void ReadPool::WakeThread() noexcept {
  const bool all_rest = resting_thread_count_ == threads_.size();
  const bool can_run = CanRunPosted() && (all_rest || turns_.posted_count() >= kCrowd);
  if (!can_run && deferred_.empty()) return;
  if (resting_thread_count_ > 0) {
    thread_needed_.notify_one();
  } else {
    // If the system refuses a thread, the running threads take these reads.
    StartThread();
  }
}

bool ReadPool::StartThread() noexcept {
  if (closing_ || threads_.size() == max_thread_count_) return false;
  try {
    const auto number = static_cast<uint32_t>(threads_.size());
    threads_.push_back(engine_race::StartThread("er-read", number, [this] { RunThread(); }));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void ReadPool::RunThread() noexcept {
  reader_.placement().EnterDeviceThread();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++resting_thread_count_;
    thread_needed_.wait(lock, [this] { return closing_ || !deferred_.empty() || CanRunPosted(); });
    --resting_thread_count_;
    if (!deferred_.empty()) {
      lock.unlock();
      CallDeferred();
      lock.lock();
    } else if (CanRunPosted()) {
      ReadWorker* const worker = TakeIdle();
      ENGINE_RACE_ASSERT(worker != nullptr);
      lock.unlock();
      Source source(this, nullptr);
      const bool is_held = worker->Run(&source);
      lock.lock();
      if (is_held) GiveBack(worker);
    } else {
      // The pool is being closed, and other threads take the reads that are left.
      return;
    }
  }
}

bool ReadPool::TakeTurn(Turn* turn) noexcept {
  if (!turns_.has_waiting()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return turns_.Take(turn);
}

// Stores the answer for a key of a batch.
void ReadPool::Answer(const ReadJob& job, Status status) noexcept {
  Report(status);
  if (!job.batch->Answer(job.index, std::move(status))) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  ENGINE_RACE_ASSERT(!job.batch->finished);
  job.batch->finished = true;
  // Under the mutex, because the caller destroys the batch as soon as it sees this.
  job.batch->changed.notify_all();
}

// Before the caller's function is called, so that the caller finds the read counted.
void ReadPool::Count(const PostedRead& read, Code code) noexcept {
  if (stats_ == nullptr) return;
  stats_->Count(OpCounter::kAsyncReadsFound, code);
  if (read.began_ns != 0) stats_->async_reads.Record(MonotonicNs() - read.began_ns);
}

void ReadPool::CallDone(std::unique_ptr<PostedRead> read, const Status& status) noexcept {
  const ReadBound::Function function(&bound_);
  Count(*read, status.code());
  Report(status);
  try {
    read->done(status);
  } catch (...) {
    // The caller's function has thrown, and no caller is there to be told.
    Report(Guarded([] {
      return Status::InvalidArgument("the function that was given to ReadAsync has thrown");
    }));
  }
  // With its function, before its place goes to another read.
  read.reset();
}

void ReadPool::Defer(PostedRead* read, Status status) noexcept {
  read->status = std::move(status);
  const std::lock_guard<std::mutex> lock(mutex_);
  deferred_.Push(read);
  // Relaxed, here and below: a hint.
  deferred_count_.fetch_add(1, std::memory_order_relaxed);
  WakeThread();
}

// Called by a thread of the pool. Takes one read at a time, so that other threads can share the
// work. Takes no more than a turn's, so that a worker that this thread may be running does not wait
// for long.
void ReadPool::CallDeferred() noexcept {
  for (size_t i = 0; i < ReadTurns::kTurnJobs; ++i) {
    if (deferred_count_.load(std::memory_order_relaxed) == 0) return;
    std::unique_ptr<PostedRead> read;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      read.reset(deferred_.Pop(1));
      if (read == nullptr) return;
      deferred_count_.fetch_sub(1, std::memory_order_relaxed);
    }
    const Status status = std::move(read->status);
    CallDone(std::move(read), status);
  }
}

void ReadPool::Report(const Status& status) const noexcept {
  if (status.ok() || status.code() == Code::kNotFound) [[likely]] {
    return;
  }
  try {
    Log(options_.log, LogLevel::kError, status.ToString());
  } catch (const std::bad_alloc&) {
    // There is no memory for the message.
  }
}

}  // namespace engine_race

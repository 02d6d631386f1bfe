#include "engine_race/task/read_pool.h"

#include <new>
#include <system_error>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/parallel.h"

namespace engine_race {

namespace {

// Posted reads that wait before another thread is woken for them.
constexpr size_t kCrowd = 32;

// A read in flight beside its buffer: frame, request, bookkeeping.
constexpr uint64_t kTaskBytes = 1024;

uint32_t WorkerCount(const Options& options) {
  return options.worker_count != 0 ? options.worker_count : AvailableCpuCount();
}

}  // namespace

// What one worker reads while one thread runs it.
class ReadPool::Source final : public ReadSource {
 public:
  // `own` is null for a thread of the pool, which takes posted reads.
  Source(ReadPool* pool, ReadBatch* own) : pool_(pool), own_(own) {}

  bool Next(ReadJob* job) noexcept override {
    while (TakeAny(job)) {
      if (job->value != nullptr) [[likely]] {
        return true;
      }
      pool_->Finish(*job, CheckKey(job->batch->key(job->index)));
    }
    return false;
  }
  void Done(const ReadJob& job, Status status) noexcept override {
    pool_->Finish(job, std::move(status));
  }
  // What a caller of MultiRead has in flight for others when its own batch is done is the next
  // caller's to finish: the device's queue stays full from one call to the next. A thread of the
  // pool keeps its posted reads, whose owners are to be told by no other thread.
  bool HandOver(ReadWorker* worker) noexcept override {
    return own_ != nullptr && own_->all_answered() && pool_->HandOver(worker);
  }

 private:
  bool TakeAny(ReadJob* job) noexcept {
    if (own_ == nullptr) return pool_->TakePosted(job) || pool_->TakeFromWaiting(job);
    if (own_->Take(job)) return true;
    // While the last of its own are under way it helps others.
    return !own_->all_answered() && pool_->TakeFromWaiting(job);
  }

  ReadPool* const pool_;
  ReadBatch* const own_;
};

ReadPool::ReadPool(const PointReader& reader, const Options& options, std::vector<int> files)
    : reader_(reader), options_(options), files_(std::move(files)) {
  const uint32_t count = WorkerCount(options);
  idle_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<ReadWorker>(reader_, options_, files_));
    idle_.push_back(workers_.back().get());
  }
  threads_.reserve(count);
}

ReadPool::~ReadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  posted_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

uint64_t ReadPool::memory_bytes() const {
  uint64_t bytes = 0;
  for (const std::unique_ptr<ReadWorker>& worker : workers_) bytes += worker->memory_bytes();
  return bytes;
}

uint64_t ReadPool::MaxMemoryBytes(const Options& options) {
  return uint64_t{WorkerCount(options)} * options.tasks_per_worker * (kValueBytes + kTaskBytes);
}

ReadWorker* ReadPool::TakeIdle() {
  if (idle_.empty()) return nullptr;
  ReadWorker* const worker = idle_.back();
  idle_.pop_back();
  return worker;
}

// To the first who waits and has use for it.
bool ReadPool::Grant(ReadWorker* worker) {
  for (Waiter* waiter = first_waiter_; waiter != nullptr; waiter = waiter->next) {
    if (waiter->granted != nullptr || waiter->finished) continue;
    if (waiter->batch != nullptr && waiter->batch->all_taken()) continue;
    waiter->granted = worker;
    waiter->changed.notify_one();
    return true;
  }
  return false;
}

bool ReadPool::HandOver(ReadWorker* worker) {
  if (waiting_count_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return Grant(worker);
}

void ReadPool::GiveBack(ReadWorker* worker) {
  if (!Grant(worker)) idle_.push_back(worker);
}

// Until it is granted a worker or its batch is finished.
void ReadPool::AwaitWorker(Waiter* waiter, std::unique_lock<std::mutex>* lock) {
  waiter->granted = TakeIdle();
  if (waiter->granted != nullptr) return;
  Waiter** end = &first_waiter_;
  while (*end != nullptr) end = &(*end)->next;
  *end = waiter;
  // Relaxed: the mutex orders it, and who reads it without comes again.
  waiting_count_.fetch_add(1, std::memory_order_relaxed);
  waiter->changed.wait(*lock, [waiter] { return waiter->granted != nullptr || waiter->finished; });
  waiting_count_.fetch_sub(1, std::memory_order_relaxed);
  Waiter** link = &first_waiter_;
  while (*link != waiter) link = &(*link)->next;
  *link = waiter->next;
}

void ReadPool::MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                         std::span<Status> statuses) {
  if (keys.empty()) return;
  ReadBatch batch(keys, values, statuses);
  Waiter& self = batch.waiter;
  std::unique_lock<std::mutex> lock(mutex_);
  AwaitWorker(&self, &lock);
  if (self.granted != nullptr) {
    lock.unlock();
    Source source(this, &batch);
    const bool is_held = self.granted->Run(&source);
    lock.lock();
    if (is_held) GiveBack(self.granted);
  }
  // Another worker may still have some of its keys.
  self.changed.wait(lock, [&self] { return self.finished; });
}

void ReadPool::Post(std::unique_ptr<PostedRead> read) {
  std::unique_lock<std::mutex> lock(mutex_);
  posted_.push_back(read.get());
  PostedRead* const posted = read.release();
  posted_count_.fetch_add(1, std::memory_order_relaxed);
  if (WakeThread()) return;
  // No thread at all: it is read here and now.
  posted_.pop_back();
  posted_count_.fetch_sub(1, std::memory_order_relaxed);
  lock.unlock();
  ReadJob job;
  job.key = posted->key;
  job.value = posted->value;
  job.posted = posted;
  Finish(job, Guarded([&] { return reader_.Read(job.key, job.value); }));
}

// Sees to it that some thread takes what is posted; another one when many reads wait. False when
// there is no thread and none can be had.
bool ReadPool::WakeThread() {
  const bool all_rest = resting_thread_count_ == threads_.size();
  if (!all_rest && posted_.size() < kCrowd) return true;
  if (resting_thread_count_ > 0) {
    posted_changed_.notify_one();
  } else if (threads_.size() < workers_.size()) {
    try {
      threads_.emplace_back([this] { RunPosted(); });
    } catch (const std::system_error&) {
      return !threads_.empty();
    }
  }
  return true;
}

void ReadPool::RunPosted() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++resting_thread_count_;
    posted_changed_.wait(lock, [this] { return stop_ || !posted_.empty(); });
    --resting_thread_count_;
    if (posted_.empty()) return;
    Waiter self;
    AwaitWorker(&self, &lock);
    lock.unlock();
    Source source(this, nullptr);
    self.granted->Run(&source);
    lock.lock();
    GiveBack(self.granted);
  }
}

bool ReadPool::TakePosted(ReadJob* job) noexcept {
  if (posted_count_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (posted_.empty()) return false;
  job->posted = posted_.front();
  posted_.pop_front();
  posted_count_.fetch_sub(1, std::memory_order_relaxed);
  job->key = job->posted->key;
  job->value = job->posted->value;
  job->batch = nullptr;
  return true;
}

bool ReadPool::TakeFromWaiting(ReadJob* job) noexcept {
  if (waiting_count_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Waiter* waiter = first_waiter_; waiter != nullptr; waiter = waiter->next) {
    if (waiter->batch != nullptr && waiter->batch->Take(job)) return true;
  }
  return false;
}

void ReadPool::Finish(const ReadJob& job, Status status) noexcept {
  if (!status.ok() && status.code() != Code::kNotFound) [[unlikely]] {
    Report(status);
  }
  if (job.batch != nullptr) {
    if (job.batch->Answer(job.index, std::move(status))) FinishBatch(job.batch);
    return;
  }
  const std::unique_ptr<PostedRead> posted(job.posted);
  try {
    posted->done(status);
  } catch (...) {
    // Thrown by what is the caller's; a worker has nobody to give it to.
    Report(Status::InvalidArgument("what ReadAsync was to call has thrown"));
  }
}

void ReadPool::FinishBatch(ReadBatch* batch) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  batch->waiter.finished = true;
  // Under the mutex: the batch is gone as soon as its owner sees this.
  batch->waiter.changed.notify_all();
}

void ReadPool::Report(const Status& status) const noexcept {
  try {
    Log(options_.log, LogLevel::kError, status.ToString());
  } catch (const std::bad_alloc&) {
    // Nothing is left to say it with.
  }
}

}  // namespace engine_race

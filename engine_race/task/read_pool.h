// Thousands of reads in flight on a few threads: the room's front page.
//
// The pool has a fixed number of workers, at most one per CPU unless told otherwise. A caller of
// MultiRead takes a worker and runs it itself, without a hand-over to another thread; a caller that
// finds none leaves its batch to those who have one, and gets theirs, reads in flight and all, when
// they are done. Posted
// reads are run by threads of the pool, which take workers in the same way and are started when
// first needed. Each worker reaches every file through a ring of its own.
//
// Thread-safe.
#ifndef ENGINE_RACE_TASK_READ_POOL_H_
#define ENGINE_RACE_TASK_READ_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_batch.h"
#include "engine_race/task/read_job.h"
#include "engine_race/task/read_worker.h"

namespace engine_race {

class ReadPool {
 public:
  // Everything outlives the pool. The back end in `options` is one that works here. Failed reads
  // other than kNotFound are told to the log callback.
  ReadPool(const PointReader& reader, const Options& options, std::vector<int> files);
  // Waits for every posted read. Nobody may be inside a call.
  ~ReadPool();

  // As Store::MultiRead, the sizes checked.
  void MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                 std::span<Status> statuses);
  // As Store::ReadAsync, the arguments checked. May throw std::bad_alloc, nothing started then.
  void Post(std::unique_ptr<PostedRead> read);

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  uint64_t memory_bytes() const;
  // What all workers take at most.
  static uint64_t MaxMemoryBytes(const Options& options);

 private:
  class Source;

  // Under mutex_, all of them.
  ReadWorker* TakeIdle();
  bool Grant(ReadWorker* worker);
  void GiveBack(ReadWorker* worker);
  void AwaitWorker(Waiter* waiter, std::unique_lock<std::mutex>* lock);
  bool WakeThread();

  bool HandOver(ReadWorker* worker);
  bool TakePosted(ReadJob* job) noexcept;
  bool TakeFromWaiting(ReadJob* job) noexcept;
  void Finish(const ReadJob& job, Status status) noexcept;
  void FinishBatch(ReadBatch* batch) noexcept;
  void RunPosted();
  void Report(const Status& status) const noexcept;

  const PointReader& reader_;
  const Options& options_;
  const std::vector<int> files_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;

  std::mutex mutex_;
  std::vector<ReadWorker*> idle_;
  // A list of those who wait, in the order in which they came.
  Waiter* first_waiter_ = nullptr;
  std::deque<PostedRead*> posted_;
  std::condition_variable posted_changed_;
  std::vector<std::thread> threads_;
  uint32_t resting_thread_count_ = 0;
  bool stop_ = false;
  // So that workers ask for the mutex only when there may be something; relaxed hints.
  std::atomic<uint32_t> waiting_count_{0};
  std::atomic<uint32_t> posted_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_POOL_H_

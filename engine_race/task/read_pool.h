// Thousands of reads in flight on a few threads: the room's front page.
//
// The pool has a fixed number of workers, at most one per CPU unless told otherwise. A caller of
// MultiRead takes a worker and runs it itself, without a hand-over to another thread. A caller that
// finds no worker leaves its batch to the threads that have one, and gets the worker of one that is
// done, reads in flight and all. Posted reads are run by threads of the pool, which take workers
// in the same way and are started when first needed; callers of MultiRead read them as well when it
// is their turn, and leave it to a thread of the pool to call their functions. Each worker reaches
// every file through a ring of its own.
//
// Batches and posted reads wait in one fair queue: see read_turns.h for the bound.
//
// Thread-safe.
#ifndef ENGINE_RACE_TASK_READ_POOL_H_
#define ENGINE_RACE_TASK_READ_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
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
#include "engine_race/task/read_turns.h"
#include "engine_race/task/read_worker.h"

namespace engine_race {

class ReadPool {
 public:
  // Everything outlives the pool. The back end in `options` is one that works here. Failed reads
  // other than kNotFound are told to the log callback.
  ReadPool(const PointReader& reader, const Options& options, std::vector<int> files);
  // Closes it.
  ~ReadPool();

  // As Store::MultiRead, the sizes checked.
  void MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                 std::span<Status> statuses);
  // As Store::ReadAsync, the arguments checked. kInvalidArgument, and nothing started, once the
  // pool is being closed.
  Status Post(std::unique_ptr<PostedRead> read);

  // Refuses further posted reads, and waits until those before are answered. No caller may be
  // inside MultiRead, nor come later.
  void Close();

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  uint64_t memory_bytes() const;
  // Batches that wait for a worker, and one if posted reads wait. Relaxed: a statistic.
  uint32_t waiting_count() const { return turns_.source_count(); }
  // What all workers take at most.
  static uint64_t MaxMemoryBytes(const Options& options);

 private:
  class Source;

  // Under mutex_, all of them.
  ReadWorker* TakeIdle();
  bool Grant(ReadWorker* worker);
  void GiveBack(ReadWorker* worker);
  bool CanRunPosted() const { return turns_.posted_count() > 0 && !idle_.empty(); }
  void WakeThread() noexcept;
  bool StartThread() noexcept;

  bool HandOver(ReadWorker* worker) noexcept;
  bool TakeTurn(Turn* turn) noexcept;
  void Answer(const ReadJob& job, Status status) noexcept;
  void CallDone(std::unique_ptr<PostedRead> read, const Status& status) noexcept;
  void Defer(PostedRead* read, Status status) noexcept;
  void CallDeferred() noexcept;
  void RunThread() noexcept;
  void Report(const Status& status) const noexcept;

  const PointReader& reader_;
  const Options& options_;
  const std::vector<int> files_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;

  std::mutex mutex_;
  std::vector<ReadWorker*> idle_;
  ReadTurns turns_;
  // Posted reads with their results, whose functions a thread of the pool has yet to call.
  PostedList deferred_;
  std::condition_variable thread_needed_;
  std::vector<std::thread> threads_;
  uint32_t resting_thread_count_ = 0;
  bool closing_ = false;
  // So that threads ask for the mutex only when there may be something; a relaxed hint.
  std::atomic<uint32_t> deferred_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_POOL_H_

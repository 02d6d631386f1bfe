// Thousands of reads in flight on a few threads: the room's front page.
//
// The pool has a fixed number of workers, by default at most one for each CPU. A caller of
// MultiRead takes a worker and runs it itself, without waking another thread. If no worker is free,
// the running workers read its keys too. When the caller of one of them is done, the waiting caller
// gets that worker, with its reads in flight.
//
// Threads of the pool run the posted reads. The pool starts them when they are first needed, and
// they take workers in the same way. ReadBound bounds the posted reads. Callers of MultiRead read
// posted keys too when it is their turn. They do not call the functions of posted reads; a thread
// of the pool does that.
//
// Each worker reaches every file through a ring of its own. Batches and posted reads wait in one
// fair queue: see read_turns.h for its bound.
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

#include "engine_race/base/op_stats.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_batch.h"
#include "engine_race/task/read_bound.h"
#include "engine_race/task/read_job.h"
#include "engine_race/task/read_turns.h"
#include "engine_race/task/read_worker.h"

namespace engine_race {

class ReadPool {
 public:
  // All arguments outlive the pool. `options` must name a back end that works here. Failures other
  // than kNotFound are reported to the log callback. Posted reads are counted in `stats`, unless
  // that is null.
  ReadPool(const PointReader& reader, const Options& options, std::vector<int> files,
           OpStats* stats = nullptr);
  // Closes the pool.
  ~ReadPool();

  // Store::MultiRead and MultiReadInto, after the sizes were checked. They answer what a view of
  // `version` shows, which the caller holds during the call.
  void MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                 std::span<Status> statuses, uint64_t version = kLatestVersion);
  void MultiRead(std::span<const uint64_t> keys, char* rows, std::span<Code> codes,
                 uint64_t version = kLatestVersion);
  // Store::ReadAsync, after the arguments were checked. kInvalidArgument, and nothing is read, once
  // the pool is being closed. kBusy, or waits: see ReadBound.
  Status Post(std::unique_ptr<PostedRead> read);

  // Refuses further posted reads and waits until the earlier ones are answered. No thread may be
  // inside MultiRead or call it later.
  void Close();

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  // Of the workers and of posted reads.
  uint64_t memory_bytes() const;
  const ReadBound& bound() const { return bound_; }
  // The number of batches that wait for a worker, plus one if posted reads wait. Relaxed: a
  // statistic.
  uint32_t waiting_count() const { return turns_.source_count(); }
  // How many posted reads may be pending: Options::async_read_limit, or what stands for 0 there.
  static uint32_t PostedLimit(const Options& options);
  // An upper bound of the memory of all workers and posted reads.
  static uint64_t MaxMemoryBytes(const Options& options, const ValueLayout& layout);

 private:
  class Source;

  // All of these are called under mutex_.
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
  void Count(const PostedRead& read, Code code) noexcept;
  void Defer(PostedRead* read, Status status) noexcept;
  void CallDeferred() noexcept;
  void RunBatch(ReadBatch* batch);
  void RunThread() noexcept;
  void Report(const Status& status) const noexcept;

  const PointReader& reader_;
  const Options& options_;
  OpStats* const stats_;
  ReadBound bound_;
  const std::vector<int> files_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;

  std::mutex mutex_;
  std::vector<ReadWorker*> idle_;
  ReadTurns turns_;
  // Posted reads with their results. A thread of the pool will call their functions.
  PostedList deferred_;
  std::condition_variable thread_needed_;
  std::vector<std::thread> threads_;
  uint32_t max_thread_count_ = 0;
  uint32_t resting_thread_count_ = 0;
  bool closing_ = false;
  // Lets threads skip the mutex while nothing is deferred. A relaxed hint.
  std::atomic<uint32_t> deferred_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_POOL_H_

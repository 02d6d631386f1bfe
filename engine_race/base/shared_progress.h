// The progress of a call that several threads work on.
//
// The threads count what they have done. The caller's thread, which makes this object, tells the
// caller: after each piece of its own work, and while it waits for the others (RunParallel). Once
// the caller has cancelled, every thread ends behind its present piece.
//
// Thread safety: Add and EndWorker from any thread, the rest from the thread that made it.
#ifndef ENGINE_RACE_BASE_SHARED_PROGRESS_H_
#define ENGINE_RACE_BASE_SHARED_PROGRESS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"

namespace engine_race {

class SharedProgress {
 public:
  // `on_progress` may be empty. It must outlive this.
  SharedProgress(const ProgressFn& on_progress, uint64_t most_count)
      : on_progress_(on_progress), most_count_(most_count) {}
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;

  // Counts more records that are done. kIncomplete once the caller has cancelled.
  Status Add(uint64_t record_count);
  // Tells the caller now, even if nothing is done yet. kIncomplete once it has cancelled.
  Status Tell();
  uint64_t done_count() const;

  // For RunParallel: a thread has ended, and its caller waits until `worker_count` threads have.
  // kIncomplete if the caller has cancelled, even if all threads had done their work by then.
  void EndWorker();
  Status AwaitWorkers(size_t worker_count);

 private:
  const ProgressFn& on_progress_;
  const uint64_t most_count_;
  const std::thread::id caller_ = std::this_thread::get_id();
  mutable std::mutex mutex_;  // around all that follows
  std::condition_variable changed_;
  uint64_t done_count_ = 0;
  uint64_t told_count_ = 0;
  size_t ended_worker_count_ = 0;
  bool is_cancelled_ = false;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_SHARED_PROGRESS_H_

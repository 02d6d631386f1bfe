// A key to be read, and the source that gives such jobs to a worker and takes the answers.
#ifndef ENGINE_RACE_TASK_READ_JOB_H_
#define ENGINE_RACE_TASK_READ_JOB_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "engine_race/base/status.h"
#include "engine_race/base/value_sink.h"
#include "engine_race/index/live_versions.h"
#include "engine_race/index/run_window.h"

namespace engine_race {

class ReadBatch;

// A read whose result goes to a function.
struct PostedRead {
  uint64_t key = 0;
  ValueSink value;
  std::function<void(const Status&)> done;
  uint64_t began_ns = 0;  // of MonotonicNs; 0: its latency is not measured
  // For the pool: the result once it is known, and the next read of a list.
  Status status;
  PostedRead* next = nullptr;
};

// Either a key of a batch, or a posted read.
struct ReadJob {
  uint64_t key = 0;
  ValueSink value;                    // not set: the key is refused
  uint64_t version = kLatestVersion;  // of the view that it is read at
  ReadBatch* batch = nullptr;
  size_t index = 0;
  PostedRead* posted = nullptr;  // owned by the job
  RunWindow window;              // where its lookup begins
};

class ReadWorker;

// Gives jobs to one worker, on the thread that runs the worker.
class ReadSource {
 public:
  // False when there is nothing to read now.
  virtual bool Next(ReadJob* job) noexcept = 0;
  // Takes a job back with its answer.
  virtual void Done(const ReadJob& job, Status status) noexcept = 0;
  // Asked now and then while reads are in flight. True when another thread runs the worker from
  // here on, with the reads in flight.
  virtual bool HandOver(ReadWorker* worker) noexcept = 0;

 protected:
  ~ReadSource() = default;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_JOB_H_

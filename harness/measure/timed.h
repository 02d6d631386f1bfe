// One measured point: threads that start together, run until the time is up, and are added up.
//
// RunTimed from one thread at a time; what it hands to the bodies is each body's own.
#ifndef HARNESS_MEASURE_TIMED_H_
#define HARNESS_MEASURE_TIMED_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "engine_race/base/status.h"
#include "harness/measure/histogram.h"

namespace harness {

// One measurement: so many requests in so much time.
struct TimedPoint {
  double seconds = 0;
  // User and system time of the whole process, threads of the kernel that it owns included.
  double cpu_seconds = 0;
  uint64_t request_count = 0;
  uint64_t byte_count = 0;
  // In nanoseconds; empty where requests have no latency of their own. Writes of a mix apart.
  Histogram latency;
  Histogram write_latency;

  double RequestsPerSecond() const;
  double CpuNsPerRequest() const;
};

// For loads that end when all is done, whenever that is.
inline constexpr double kNoLimitSeconds = 1e6;

// What a thread of a point has done.
struct TimedTally {
  uint64_t request_count = 0;
  uint64_t byte_count = 0;
  Histogram latency;
  Histogram write_latency;
};

class TimedThread {
 public:
  virtual ~TimedThread() = default;
  // Called once, when all is set up: returns when every thread has called it or given up. Time
  // and CPU time count from then on.
  virtual void Start() = 0;
  // False when the time is up, another thread has failed, or the user interrupts.
  virtual bool Running() const = 0;
  // Called when all is done that counts, before what was set up is taken down; what the body
  // leaves out is done when it returns. The point ends with the last thread's call.
  virtual void Stop() = 0;

  TimedTally tally;
};

using TimedBody = std::function<engine_race::Status(uint32_t thread, TimedThread* self)>;

// Runs `body` in so many threads for so long. The first failure of a body is the answer;
// kIncomplete when the user interrupted.
engine_race::Status RunTimed(uint32_t thread_count, double seconds, const TimedBody& body,
                             TimedPoint* point);

}  // namespace harness

#endif  // HARNESS_MEASURE_TIMED_H_

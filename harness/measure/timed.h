// One measured point: threads start together, run until the time is up, and their counts are
// summed.
//
// RunTimed is not thread-safe. Each body has its own TimedThread.
#ifndef HARNESS_MEASURE_TIMED_H_
#define HARNESS_MEASURE_TIMED_H_

#include <cstdint>
#include <functional>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/status.h"

namespace engine_race::harness {

// One measurement: requests, and the time that they took.
struct TimedPoint {
  double seconds = 0;
  // User and system time of the whole process, threads of the kernel that it owns included.
  double cpu_seconds = 0;
  uint64_t request_count = 0;
  uint64_t byte_count = 0;
  // In nanoseconds; empty when single requests are not timed. Writes of a mix have their own.
  LatencyHistogram latency;
  LatencyHistogram write_latency;

  double RequestsPerSecond() const;
  double CpuNsPerRequest() const;
};

// For loads that end when all their work is done.
inline constexpr double kNoLimitSeconds = 1e6;

// The counts of one thread of a point.
struct TimedTally {
  uint64_t request_count = 0;
  uint64_t byte_count = 0;
  LatencyHistogram latency;
  LatencyHistogram write_latency;
};

// State of all threads of a point.
class TimedTeam;

// Lines of its own, because neighbours count at the same time.
class alignas(64) TimedThread {
 public:
  explicit TimedThread(TimedTeam* team) : team_(team) {}

  // Called once, when the body is set up. Returns when every thread has called it or failed. Time
  // and CPU time count from then on.
  void Start();
  // False when the time is up, another thread has failed, or the user interrupts. The second form
  // is for a body that has just read NowNs.
  bool Running() const;
  bool Running(uint64_t now_ns) const;
  // Called when the measured work is done, before the body's cleanup. For a body that does not call
  // it, the work is done when the body returns. The point ends with the last thread's call.
  void Stop();
  // Called by RunTimed after the body, or instead of a body that has no thread.
  void End();

  TimedTally tally;

 private:
  TimedTeam* const team_;
  bool started_ = false;
  bool stopped_ = false;
};

using TimedBody = std::function<Status(uint32_t thread, TimedThread* self)>;

// Runs `body` in this many threads for this time. Returns the first failure of a body, kIOError
// when a thread cannot be started, or kIncomplete when the user interrupted. *point, if given, gets
// the counts.
Status RunTimed(uint32_t thread_count, double seconds, const TimedBody& body,
                TimedPoint* point = nullptr);

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_TIMED_H_

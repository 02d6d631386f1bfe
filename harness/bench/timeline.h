// The operations of a run by second.
//
// SecondNotes is for one thread at a time. Of Timeline any thread of a run calls Begin, and its
// owner calls End.
#ifndef HARNESS_BENCH_TIMELINE_H_
#define HARNESS_BENCH_TIMELINE_H_

#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/bench/benchmark.h"
#include "harness/measure/progress.h"

namespace engine_race::harness {

// Turns counts of all operations so far into those of each second. The caller has the clock.
class SecondNotes {
 public:
  SecondNotes(OnSecondFn on_second, std::vector<BenchSecond>* seconds)
      : on_second_(std::move(on_second)), seconds_(seconds) {}

  // A second has ended `seconds` after the beginning.
  void Note(double seconds, uint64_t operations);
  // The run has ended: notes what was done since the last second.
  void End(double seconds, uint64_t operations);

 private:
  const OnSecondFn on_second_;
  std::vector<BenchSecond>* const seconds_;
  uint64_t noted_ = 0;
};

// Notes once a second how many operations have been done.
class Timeline {
 public:
  Timeline(const Progress& progress, OnSecondFn on_second, std::vector<BenchSecond>* seconds)
      : progress_(progress), notes_(std::move(on_second), seconds) {}

  // The first call begins.
  void Begin();
  // Called after the threads of the run have ended.
  void End(double seconds);

 private:
  void Watch(const std::stop_token& stop);

  const Progress& progress_;
  SecondNotes notes_;
  std::once_flag begun_;
  uint64_t begin_ns_ = 0;
  std::jthread thread_;
};

// db_bench's report file: a line for each interval of a run, with the operations done in it.
//
// The columns are "secs_elapsed,interval_qps". As in db_bench the second one is a count, whatever
// the interval. The end of a run that is no whole interval has no line. Unlike db_bench, all
// runs of a program share one file: each goes on from the seconds of the one before.
class ReportFile {
 public:
  // Makes the file anew. False when it cannot be written.
  bool Open(const std::string& path, uint32_t interval_seconds);
  // Does nothing but after Open.
  void BeginRun();
  // A second of the run has ended: see BenchConfig::on_second.
  void NoteSecond(double seconds, uint64_t operations);

 private:
  std::ofstream file_;
  uint32_t interval_seconds_ = 0;
  uint32_t noted_seconds_ = 0;  // of this run
  uint64_t noted_operations_ = 0;
  double run_begin_seconds_ = 0;
  double last_seconds_ = 0;
};

// When each call of a thread should begin, for a given rate of all threads together; 0: at once.
class Pace {
 public:
  // `operations` is how many each call does. The threads take turns.
  Pace(double rate, uint32_t thread_count, uint32_t thread, uint32_t operations)
      : step_ns_(rate == 0 ? 0 : 1e9 / rate * thread_count * operations),
        first_ns_(rate == 0 ? 0 : 1e9 / rate * thread * operations) {}

  bool has_rate() const { return step_ns_ > 0; }
  // The intended start of a call, in nanoseconds since the run began.
  uint64_t StartNs(uint64_t call) const {
    return static_cast<uint64_t>(first_ns_ + step_ns_ * static_cast<double>(call));
  }

 private:
  const double step_ns_;
  const double first_ns_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_TIMELINE_H_

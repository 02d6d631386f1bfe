// The operations of a run by second.
//
// SecondNotes is for one thread at a time. Of Timeline any thread of a run calls Begin, and its
// owner calls End.
#ifndef HARNESS_BENCH_TIMELINE_H_
#define HARNESS_BENCH_TIMELINE_H_

#include <cstdint>
#include <mutex>
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

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_TIMELINE_H_

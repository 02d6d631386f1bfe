// The range phase's visitors: every thread ranges over everything, pass by pass in lockstep.
//
// For one run and one thread; the run starts the visitors' threads.
#ifndef HARNESS_RACE_RANGE_RUN_H_
#define HARNESS_RACE_RANGE_RUN_H_

#include <cstdint>
#include <functional>

#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/measure/progress.h"
#include "harness/measure/workers.h"

namespace harness {

class RangeRun {
 public:
  // All references outlive this. Each pass must find `expected`. Keys are always checked.
  RangeRun(const KeySource& keys, const ValueMaker& values, const KeySummary& expected,
           engine_race::Store* store, Failures* failures, Progress* progress, uint32_t thread_count,
           bool checks_values);

  // Gets a pass's number and seconds, while all visitors wait at its end. May not throw.
  using PassFn = std::function<void(uint32_t pass, double seconds)>;

  // Runs kRangePasses passes. The time of the first begins at `start_ns`, that of each later one at
  // the barrier before it.
  void Run(uint64_t start_ns, const PassFn& after_pass);

 private:
  // Makes one Range("", "") of one thread and checks it.
  void Pass(uint32_t thread, uint32_t pass);

  const KeySource& keys_;
  const ValueMaker& values_;
  const KeySummary expected_;
  engine_race::Store* store_;
  Failures* failures_;
  Progress* progress_;
  uint32_t thread_count_;
  const bool checks_values_;
};

}  // namespace harness

#endif  // HARNESS_RACE_RANGE_RUN_H_

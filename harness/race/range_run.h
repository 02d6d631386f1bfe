// The range phase's visitors: every thread ranges over everything, pass by pass in lockstep.
//
// One run, used by one thread; the visitors are its own.
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
  // Everything is borrowed. `expected` is what each pass must find. Keys are checked always.
  RangeRun(const KeySource& keys, const ValueMaker& values, const KeySummary& expected,
           engine_race::Store* store, Failures* failures, Progress* progress, uint32_t thread_count,
           bool checks_values);

  // Told a pass's number and seconds while all visitors wait at its end. Does not throw.
  using PassFn = std::function<void(uint32_t pass, double seconds)>;

  // Runs kRangePasses passes. The first is counted from `start_ns`, each later one from the barrier
  // before it.
  void Run(uint64_t start_ns, const PassFn& after_pass);

 private:
  // One Range("", "") of one thread, checked.
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

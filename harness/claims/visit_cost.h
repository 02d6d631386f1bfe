// The cost of a visit of a range, beside the least that it could be. The store lies on tmpfs, where
// the device costs only a copy, and the race's visitors visit it.
//
// A round measures three runs. The first opens the store afresh and ranges over it twice with all
// threads. The second only does the store's reads. The third is a bare loop of the same visitors
// over the same values in memory. All figures are CPU time of the whole process.
//
// Not thread-safe; a run starts the configured number of threads.
#ifndef HARNESS_CLAIMS_VISIT_COST_H_
#define HARNESS_CLAIMS_VISIT_COST_H_

#include <array>
#include <string>

#include "harness/claims/visit_floor.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/race/phase.h"

namespace harness {

// Nanoseconds of CPU time, each for one visit of one thread.
struct VisitCosts {
  std::array<double, kRangePasses> visit_ns = {};
  // The bare reader's time for the values that the pass had to read. The first pass reads all
  // values, the second those that the memory of ranges cannot have kept.
  std::array<double, kRangePasses> reads_ns = {};
  double floor_ns = 0;
  // The floor with inlined visitors, and with inlined visitors that check only the ends of a value.
  double inlined_floor_ns = 0;
  double ends_floor_ns = 0;

  double mean_visit_ns() const { return (visit_ns[0] + visit_ns[1]) / 2; }
  double mean_reads_ns() const { return (reads_ns[0] + reads_ns[1]) / 2; }
  double rest_ns() const { return mean_visit_ns() - mean_reads_ns() - floor_ns; }
  double over_floor() const { return (mean_visit_ns() - mean_reads_ns()) / floor_ns; }
};
static_assert(kRangePasses == 2);

// Returns `race` with another memory budget: ranges can keep about the same part of the values as
// in a race of the default size.
RaceConfig WithRaceMemory(RaceConfig race);

class VisitCost {
 public:
  // `race` gives records, threads and memory. The store is made in its `dir`, which the caller
  // removes.
  explicit VisitCost(const RaceConfig& race);

  // Writes the store, fills the floor's memory and finds the best bare loop; must come first. Like
  // Round, it returns false after a failure, which failure() tells.
  bool Prepare();
  bool Round(VisitCosts* costs);

  const VisitLoopShape& floor_shape() const { return floor_.best(); }
  const std::string& failure() const { return failure_; }

 private:
  bool Passes(VisitCosts* costs, double* kept_fraction);
  bool Reads(double kept_fraction, VisitCosts* costs);
  bool Fail(const std::string& what);

  const RaceConfig race_;
  const KeySource keys_;
  const ValueMaker values_;
  const KeySummary summary_;
  VisitFloor floor_;
  std::string failure_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_VISIT_COST_H_

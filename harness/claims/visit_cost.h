// What a visit of a range costs, beside the least that it could: a store on tmpfs, where the device
// costs nothing but a copy, visited by a race's visitors.
//
// A round is a fresh opening with two passes of all threads, the store's reads by themselves, and a
// bare loop with the same visitors over the same values in memory. CPU time of the whole process.
// One thread at a time; a run starts as many as it is told.
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
  // What the bare reader takes for the values that the pass had to read: in the first one all, in
  // the second those that the memory of ranges cannot have kept.
  std::array<double, kRangePasses> reads_ns = {};
  double floor_ns = 0;
  // The same loop with visitors that are inlined, and with such that look at ends alone.
  double inlined_floor_ns = 0;
  double ends_floor_ns = 0;

  double mean_visit_ns() const { return (visit_ns[0] + visit_ns[1]) / 2; }
  double mean_reads_ns() const { return (reads_ns[0] + reads_ns[1]) / 2; }
  double rest_ns() const { return mean_visit_ns() - mean_reads_ns() - floor_ns; }
  double over_floor() const { return (mean_visit_ns() - mean_reads_ns()) / floor_ns; }
};
static_assert(kRangePasses == 2);

// A memory budget of which ranges get about as large a part of the values as in a race of the usual
// size.
RaceConfig WithRaceMemory(RaceConfig race);

class VisitCost {
 public:
  // `race` says which records, threads and memory; a new store is made in its `dir`, which its
  // owner removes.
  explicit VisitCost(const RaceConfig& race);

  // Writes the store, fills the floor's memory and finds the best bare loop; must come first. False
  // after a failure, here and below: failure() tells it.
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

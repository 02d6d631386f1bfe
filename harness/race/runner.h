// One phase beside the device: page cache dropped, fio, the phase in its process, fio again.
//
// bin/race and bin/claims race use these. Not thread-safe.
#ifndef HARNESS_RACE_RUNNER_H_
#define HARNESS_RACE_RUNNER_H_

#include <string>
#include <vector>

#include "harness/race/phase.h"
#include "harness/system/fio_runner.h"

namespace harness {

struct PhaseReport {
  Phase phase = Phase::kWrite;
  PhaseResult result;
  // Not ok when fio was not wanted, is missing or failed.
  FioResult before;
  FioResult after;
  // How the page cache was dropped before the phase.
  std::string cache_drop;

  bool has_device() const { return before.ok && after.ok; }
  // The mean of the two runs of fio; 0 without them.
  double DeviceBytesPerSecond() const;
  // `bytes_per_second` as a fraction of the device's rate; 0 when that is unknown.
  double FractionOf(double bytes_per_second) const;
};

// `fio` may be null: then only the phase runs.
PhaseReport MeasurePhase(Phase phase, const RaceConfig& config, FioRunner* fio);

// The table that bin/race ends with: one line a phase, two for the range.
std::string ReportTable(const std::vector<PhaseReport>& reports);

}  // namespace harness

#endif  // HARNESS_RACE_RUNNER_H_

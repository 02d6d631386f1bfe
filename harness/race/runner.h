// One phase beside the device: page cache dropped, fio, the phase in its process, fio again.
//
// A program that calls MeasurePhase has kPhaseWork among the works of its children. Not
// thread-safe.
#ifndef HARNESS_RACE_RUNNER_H_
#define HARNESS_RACE_RUNNER_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/race/phase.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {

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

inline constexpr char kPhaseWork[] = "phase";
Status RunPhaseWork(const nlohmann::json& order, nlohmann::json* answer);

// `fio` may be null: then only the phase runs. A process that dies gives a failed result.
PhaseReport MeasurePhase(Phase phase, const RaceConfig& config, FioRunner* fio);

// The table that bin/race ends with: one line a phase, two for the range.
std::string ReportTable(const std::vector<PhaseReport>& reports);

}  // namespace engine_race::harness

#endif  // HARNESS_RACE_RUNNER_H_

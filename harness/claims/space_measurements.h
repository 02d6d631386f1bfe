// The measurements of bin/bench_space, one after another. Start at SpaceMeasurements.
//
// Each makes its stores below SpaceConfig::dir and removes them. It returns the first failure; what
// it has measured until then is in the report.
#ifndef HARNESS_CLAIMS_SPACE_MEASUREMENTS_H_
#define HARNESS_CLAIMS_SPACE_MEASUREMENTS_H_

#include <cstdint>
#include <span>

#include "engine_race/base/status.h"
#include "harness/claims/space_config.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

struct SpaceMeasurement {
  const char* name;
  // Disk that it takes at most.
  uint64_t (*needed_bytes)(const SpaceConfig& config);
  engine_race::Status (*measure)(const SpaceConfig& config, SpaceReport* report);
};

// All of them, in the order in which they run.
std::span<const SpaceMeasurement> SpaceMeasurements();
// Of all measurements.
std::span<const ClaimTarget> SpaceTargets();

// overwrite_space_amplification, overwrite_write_amplification and overwrite_vs_fresh.
engine_race::Status MeasureOverwrites(const SpaceConfig& config, SpaceReport* report);
// zipf_write_amplification.
engine_race::Status MeasureZipf(const SpaceConfig& config, SpaceReport* report);
// read_p99_under_reclaim.
engine_race::Status MeasureReads(const SpaceConfig& config, SpaceReport* report);
// no_overwrite_cost.
engine_race::Status MeasureCost(const SpaceConfig& config, SpaceReport* report);
// vs_rocksdb_overwrite. Without RocksDB the report says so.
engine_race::Status MeasureRocks(const SpaceConfig& config, SpaceReport* report);

}  // namespace harness

#endif  // HARNESS_CLAIMS_SPACE_MEASUREMENTS_H_

// The measurements of the bench about space.
//
// Each makes its stores below SpaceConfig::dir and removes them. It returns the first failure; what
// it has measured until then is in the report.
#ifndef HARNESS_CLAIMS_SPACE_MEASUREMENTS_H_
#define HARNESS_CLAIMS_SPACE_MEASUREMENTS_H_

#include "engine_race/base/status.h"
#include "harness/claims/space_config.h"

namespace harness {

// overwrite_space_amplification, overwrite_write_amplification and overwrite_vs_fresh.
engine_race::Status MeasureOverwrites(const SpaceConfig& config, SpaceReport* report);
// zipf_write_amplification.
engine_race::Status MeasureZipf(const SpaceConfig& config, SpaceReport* report);
// read_p99_under_reclaim.
engine_race::Status MeasureReads(const SpaceConfig& config, SpaceReport* report);
// no_overwrite_cost.
engine_race::Status MeasureCost(const SpaceConfig& config, SpaceReport* report);
// vs_rocksdb_overwrite. kNotSupported without RocksDB.
engine_race::Status MeasureRocks(const SpaceConfig& config, SpaceReport* report);

bool HasRocks();

}  // namespace harness

#endif  // HARNESS_CLAIMS_SPACE_MEASUREMENTS_H_

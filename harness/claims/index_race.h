// The claim about what the index on disk costs a race: its time with the files of the index over
// its time without them.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_RACE_H_
#define HARNESS_CLAIMS_INDEX_RACE_H_

#include "engine_race/base/status.h"
#include "harness/claims/index_bench_config.h"

namespace harness {

inline constexpr char kRaceCost[] = "race_cost";

engine_race::Status MeasureRaceCost(const IndexBenchRun& run);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_RACE_H_

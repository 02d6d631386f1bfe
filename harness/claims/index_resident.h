// The claims about lookups in an index that fits its memory: beside flat arrays with the same keys,
// one by one and in batches.
//
// Uniform, clustered and sequential keys are measured apart. A claim is the worst of their medians.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_RESIDENT_H_
#define HARNESS_CLAIMS_INDEX_RESIDENT_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/geometry.h"
#include "harness/claims/index_bench_config.h"

namespace harness {

inline constexpr char kResidentLookup[] = "resident_lookup_ns_ratio";
inline constexpr char kResidentBatch[] = "resident_batch_ratio";

enum class ResidentKeys {
  kUniform,     // spread evenly
  kClustered,   // stretches of 64 neighbouring keys, spread evenly
  kSequential,  // 0, 1, 2, ...
};

// How many keys of this kind each bucket gets: about `key_count` in all, and whole groups in each
// bucket. Sequential keys fill one bucket.
std::vector<uint64_t> ResidentCounts(const engine_race::Geometry& geometry, ResidentKeys kind,
                                     uint64_t key_count);
// The key of a slot; ascending slots of sequential keys alone have ascending keys.
uint64_t ResidentKey(const engine_race::Geometry& geometry, ResidentKeys kind, uint32_t bucket,
                     uint64_t slot, uint64_t seed);

engine_race::Status MeasureResident(const IndexBenchRun& run);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_RESIDENT_H_

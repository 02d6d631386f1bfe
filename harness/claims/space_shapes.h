// Disk space of stores that are hard to keep small: after deletions, with small buckets, with a
// single one, and with a window of keys.
//
// Thread-safe: each call has a store of its own. It starts the threads that it needs.
#ifndef HARNESS_CLAIMS_SPACE_SHAPES_H_
#define HARNESS_CLAIMS_SPACE_SHAPES_H_

#include "engine_race/base/status.h"
#include "harness/claims/space_loads.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

// Removes the directory of the shape in the end: it has one store after another. Those with
// deletions have its records, overwritten ones an eighth of them.
//
// Notes the space on disk over the values of the live records and 64 MiB:
// - deleted_space_idle, deleted_space_compacted: after nine of ten records were deleted, before and
//   after Compact; the larger figure of spread and dense keys, which are noted too
// - one_bucket_space: dense keys; the most in the second half of the overwriting
// - fifo_space: keys rise; each write deletes the key that is as many keys behind it as the store
//   has
// - small_bucket_space: 250 records a bucket, or all if that is less; as one_bucket_space
// - apparent_over_used: in the end, the sizes of all files over their space on disk.
//
// Returns the first failure of a call, or kIncomplete when the user interrupts.
Status MeasureSpaceShapes(const SpaceShape& shape, ClaimRounds* rounds);

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SPACE_SHAPES_H_

// Disk space of stores that are hard to keep small: after deletions, with small buckets, with a
// single one, and with a window of keys.
//
// Thread-safe: each call has a store of its own. It starts the threads that it needs.
#ifndef HARNESS_CLAIMS_SPACE_SHAPES_H_
#define HARNESS_CLAIMS_SPACE_SHAPES_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

struct SpaceShape {
  std::string dir;  // of the stores, one after another; is removed in the end
  engine_race::Options options;
  uint64_t record_count = 1;  // of stores with deletions; overwritten ones have an eighth
  uint32_t thread_count = 1;
  uint32_t pass_count = 1;  // how often the records are written again
  double idle_seconds = 0;  // between deletions and their measurement
  uint64_t seed = 1;
};

// Notes the space on disk over the values of the live records and 64 MiB:
// - deleted_space_idle, deleted_space_compacted: after nine of ten records were deleted, before and
//   after Compact; the larger figure of spread and dense keys, which are noted too
// - one_bucket_space: dense keys; the most in the second half of the overwriting
// - fifo_space: keys rise; each write deletes the key that is as many keys behind it as the store
// has
// - small_bucket_space: 250 records a bucket, or all if that is less; as one_bucket_space
// - apparent_over_used: in the end, the sizes of all files over their space on disk.
//
// Returns the first failure of a call, or kIncomplete when the user interrupts.
engine_race::Status MeasureSpaceShapes(const SpaceShape& shape, ClaimRounds* rounds);

}  // namespace harness

#endif  // HARNESS_CLAIMS_SPACE_SHAPES_H_

// Builds the index of one bucket that is too large for a single thread, with all of them.
//
// The keys are cut into partitions of about equal size by a sample. Then come rounds, each of which
// reads the whole key log and routes the entries of the next few partitions into buffers, as many
// as the memory allows; the partitions of a round are sorted in parallel and become parts. Nothing
// but one round's entries is ever in memory, so a bucket of 2^26 records needs no more than a small
// one.
//
// A buffer that runs full keeps the newest record of each key; when distinct keys alone fill it,
// its upper half is put off to a later round. So neither a key overwritten a million times nor a
// sample that lied can make it grow.
#ifndef ENGINE_RACE_INDEX_GIANT_BUILD_H_
#define ENGINE_RACE_INDEX_GIANT_BUILD_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/index/build.h"

namespace engine_race {

// Cuts, reads, sorts and installs the bucket. Called by one thread; it starts the others.
Status BuildGiant(BuildContext* context, uint32_t bucket);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_GIANT_BUILD_H_

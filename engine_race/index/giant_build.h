// Builds the index of one bucket that is too large for a single thread, with all threads.
//
// The keys are cut into partitions of about equal size, by a sample. Then come rounds. Each round
// reads the whole key log and routes the entries of the next few partitions into buffers. It takes
// as many partitions as the memory allows. The partitions of a round are sorted in parallel and
// become parts. Only the entries of one round are ever in memory, so a bucket of 2^31 records needs
// no more memory than a small one.
//
// A full buffer drops all but the newest record of each key. If distinct keys fill it, its upper
// half is put off to a later round. So a buffer never grows, even if one key was overwritten a
// million times or the sample was misleading.
#ifndef ENGINE_RACE_INDEX_GIANT_BUILD_H_
#define ENGINE_RACE_INDEX_GIANT_BUILD_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/index/build.h"

namespace engine_race {

// Cuts, reads, sorts and installs the bucket. Called by one thread, which starts the others.
Status BuildGiant(BuildContext* context, uint32_t bucket);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_GIANT_BUILD_H_

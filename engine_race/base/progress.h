// How a long call tells its caller of its progress, and how the caller ends the call.
#ifndef ENGINE_RACE_BASE_PROGRESS_H_
#define ENGINE_RACE_BASE_PROGRESS_H_

#include <cstdint>
#include <functional>

namespace engine_race {

// A long call divides its records into pieces. Between pieces it calls this with the count of
// records done, and with an upper bound of that count. False cancels the call: it begins no more
// pieces, cleans up as after a failure, and answers kIncomplete. A function that looks at a flag
// lets another thread cancel.
//
// The thread that made the call calls it, and no other thread does. It may not throw.
using ProgressFn = std::function<bool(uint64_t done_count, uint64_t most_count)>;

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PROGRESS_H_

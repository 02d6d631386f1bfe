// The search kernel: a lower bound whose only branch is its loop's.
//
// Each half is equally likely to hold the key of a random lookup. So a branch on the comparison
// would be mispredicted every other step. Here the comparison becomes a mask that moves the base,
// and the number of steps depends only on the count. GCC is free to undo that, so a test reads the
// machine code.
//
// Pure, thread-safe. Not inlined, so that every search of the engine runs the code that the test
// reads.
#ifndef ENGINE_RACE_BASE_LOWER_BOUND_H_
#define ENGINE_RACE_BASE_LOWER_BOUND_H_

#include <cstddef>
#include <cstdint>

namespace engine_race {

// How many of the ascending keys[0, count) are below `key`.
size_t LowerBound(const uint64_t* keys, size_t count, uint64_t key);
// How many of the ascending keys[0, count) are at most `key`.
inline size_t UpperRank(const uint64_t* keys, size_t count, uint64_t key) {
  return key == ~uint64_t{0} ? count : LowerBound(keys, count, key + 1);
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_LOWER_BOUND_H_

// How large a race may be, and the space that it takes on disk.
//
// Pure functions.
#ifndef HARNESS_LOAD_RACE_SPACE_H_
#define HARNESS_LOAD_RACE_SPACE_H_

#include <cstdint>

namespace harness {

// The most records that a thread of a race may have: with 4096 threads no sum of bytes wraps.
inline constexpr uint64_t kMaxRecordsPerThread = uint64_t{1} << 36;
// The most space that the phases of a race take on disk.
uint64_t RaceBytes(uint64_t record_count, bool has_write, bool has_mixed);

}  // namespace harness

#endif  // HARNESS_LOAD_RACE_SPACE_H_

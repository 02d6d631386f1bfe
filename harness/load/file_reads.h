// A bare reader of whole files: what reading a store costs without an engine.
//
// Runs one thread of its own; one call at a time.
#ifndef HARNESS_LOAD_FILE_READS_H_
#define HARNESS_LOAD_FILE_READS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

// The value files of a closed store, or of one that is open without writers.
inline constexpr char kValueFilePrefix[] = "value_";

// Reads, with direct I/O and in order, the data between the holes of the files in and below `dir`
// whose names begin with `prefix`. Reads are as the engine's ranges have them, unless the caller
// gives others. *point counts reads, and the bytes that came.
Status ReadFiles(const std::string& dir, const std::string& prefix, TimedPoint* point,
                 uint32_t read_bytes = 256 * 1024, uint32_t depth = 64);

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_FILE_READS_H_

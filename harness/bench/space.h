// The disk space that a session of benchmarks will take, estimated before it begins.
//
// Stateless functions.
#ifndef HARNESS_BENCH_SPACE_H_
#define HARNESS_BENCH_SPACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "harness/bench/benchmark.h"

namespace engine_race::harness {

// The most records that the store has space for at once when it runs these steps. Expected
// updates count, as if reclaim gave nothing back. Writes by time are counted as if by number.
uint64_t MostRecords(const BenchConfig& config, const std::vector<std::string>& steps);

// Empty, or why the file systems of the store's directory and of its value paths have no room for
// `records` records. A store that lies there makes room. Raw devices are not looked at: the engine
// refuses a small one.
std::string WhyNoRoomFor(uint64_t records, const std::string& dir,
                         const std::vector<std::string>& value_paths);

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_SPACE_H_

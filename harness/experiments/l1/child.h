// One step of the lookups in a child process, for two profilers. Valgrind counts instructions and
// cache misses; perf shows where the time goes.
//
// The tables are those that its parent has built.
#ifndef HARNESS_EXPERIMENTS_L1_CHILD_H_
#define HARNESS_EXPERIMENTS_L1_CHILD_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine_race/base/status.h"
#include "harness/load/l1_lookups.h"

namespace engine_race::harness {

struct L1Child {
  std::string dir;  // with the step's tables
  L1Records records;
  std::string step;
  uint64_t lookup_count = 0;  // one thread makes all of them in each pass
  uint32_t pass_count = 1;
  // Of a profiler, see ProfilerSwitch; empty: there is none to switch.
  std::string control = {};
  std::string answer = {};
};

// The work of the child.
inline constexpr char kL1StepWork[] = "l1-step";
Status RunL1Step(const nlohmann::json& order, nlohmann::json* answer);

// The work of an average lookup, by simulation.
struct L1Counts {
  double instructions = 0;
  double l1d_misses = 0;
};

// Counts with valgrind's cachegrind, which simulates a first data cache as large as this machine's
// but simpler. It runs the child twice, with more passes the second time: the difference is the
// work of lookups alone. kNotSupported without valgrind.
Status CountL1Step(L1Child child, L1Counts* counts);

// The share of its time that a step spends in the block cache and its locks, by perf's software
// clock. kNotSupported where perf does not work.
Status SampleL1Cache(L1Child child, double* share);

// Parses a file that cachegrind wrote: the sum of each event over the program.
Status ParseCachegrind(const std::string& text, L1Counts* counts);
// Parses the output of `perf report -F overhead,sym`: adds the shares of the cache's functions.
Status ParseCacheShare(const std::string& text, double* share);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_CHILD_H_

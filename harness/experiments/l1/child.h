// One step of the lookups in a process of its own, for other programs to look at: valgrind, which
// counts instructions and cache misses, and perf, which says where the time goes.
//
// The children are this program again, over tables that lie there already. One thread at a time.
#ifndef HARNESS_EXPERIMENTS_L1_CHILD_H_
#define HARNESS_EXPERIMENTS_L1_CHILD_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"
#include "harness/load/l1_lookups.h"

namespace harness {

struct L1Child {
  std::string dir;  // with the step's tables
  L1Records records;
  std::string step;
  uint64_t lookup_count = 0;  // drawn, and made by one thread in each pass
  uint32_t pass_count = 1;
  // Of the profiler that looks, or empty.
  std::string control_path;
  std::string answer_path;
};

// The child's whole work.
engine_race::Status RunL1Child(const L1Child& child);

// What an average lookup takes, by simulation.
struct L1Counts {
  double instructions = 0;
  double l1d_misses = 0;
};

// By valgrind's cachegrind, whose first data cache is as large as this machine's but simpler.
// Twice, with more passes the second time: the difference is theirs alone. kNotSupported without
// valgrind.
engine_race::Status CountL1Step(const L1Child& child, L1Counts* counts);

// The share of its time that a step spends in the block cache and its locks, by perf's software
// clock. kNotSupported where perf cannot.
engine_race::Status SampleL1Cache(const L1Child& child, double* share);

// Of a file that cachegrind wrote: the sum of each event over the program.
engine_race::Status ParseCachegrind(const std::string& text, L1Counts* counts);
// Of what `perf report -F overhead,sym` prints: the percentages of the cache's functions, as a
// fraction.
engine_race::Status ParseCacheShare(const std::string& text, double* share);

}  // namespace harness

#endif  // HARNESS_EXPERIMENTS_L1_CHILD_H_

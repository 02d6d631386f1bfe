// Rounds of lookups. Each contender runs for a moment in each round, and every other round reverses
// their order. A claim is a ratio of two contenders of the same round.
#ifndef HARNESS_EXPERIMENTS_L1_ROUNDS_H_
#define HARNESS_EXPERIMENTS_L1_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/load/l1_lookups.h"
#include "harness/measure/claim_rounds.h"
#include "harness/measure/report.h"

namespace engine_race::harness {

struct L1Contender {
  std::string name;
  const L1Lookups* lookups;
  uint32_t thread_count;
  MakeL1Answer answer = nullptr;
  // Instead of `answer`, for contenders that have threads of their own.
  std::function<Status(const L1RunShape& shape, TimedPoint* point)> run = nullptr;
};

// `name` is the throughput of the fastest `above` over that of the fastest `below`, among those
// that run.
struct L1Ratio {
  std::string name;
  std::vector<std::string> above;
  std::vector<std::string> below;
};

struct L1RoundsShape {
  uint32_t round_count = 9;
  double seconds = 0.4;  // of each run
  double warming_seconds = 0.1;
  uint64_t seed = 1;
};

// The contender that makes a step with this many threads.
std::string L1Named(const std::string& step, uint32_t threads);
// The figure in which a contender's throughput is noted, in lookups a second.
std::string L1Figure(const std::string& contender);
// A row of a table of steps: the medians of the contender and, over it, of the baseline.
ResultRow L1StepRow(const ClaimRounds& rates, const std::string& step, const std::string& baseline,
                    uint32_t threads);

// kCorruption when a contender found a wrong payload. Ends early when the user interrupts.
Status RunL1Rounds(const L1RoundsShape& shape, const std::vector<L1Contender>& contenders,
                   const std::vector<L1Ratio>& ratios, ClaimRounds* rounds);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_ROUNDS_H_

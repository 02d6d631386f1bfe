// Rounds of runs that are compared. Every side runs once in a round, and every other round goes
// from the last side to the first.
//
// Drift, such as a disk's burst allowance or a neighbour's load, then affects all sides alike. Not
// thread-safe; a run may start threads of its own.
#ifndef HARNESS_MEASURE_ALTERNATING_ROUNDS_H_
#define HARNESS_MEASURE_ALTERNATING_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine_race/base/status.h"

namespace harness {

// Runs one side; a failure ends the rounds.
using Turn = std::function<engine_race::Status()>;

// Runs the round of this number, from 0 on. Returns a turn's failure or InterruptedStatus: then the
// round is not whole.
engine_race::Status AlternatingRound(uint32_t round, const std::vector<Turn>& turns);

// Runs this many rounds. Calls `after_round` with its number when a round is whole.
engine_race::Status AlternatingRounds(uint32_t round_count, const std::vector<Turn>& turns,
                                      const std::function<void(uint32_t round)>& after_round);

}  // namespace harness

#endif  // HARNESS_MEASURE_ALTERNATING_ROUNDS_H_

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

namespace harness {

// Runs one side; false ends the rounds.
using Turn = std::function<bool()>;

// Runs the round of this number, from 0 on. False when a turn returned false or the user has
// interrupted: then the round is not whole.
bool AlternatingRound(uint32_t round, const std::vector<Turn>& turns);

// Runs this many rounds. Calls `after_round` with its number when a round is whole. False like
// AlternatingRound.
bool AlternatingRounds(uint32_t round_count, const std::vector<Turn>& turns,
                       const std::function<void(uint32_t round)>& after_round);

}  // namespace harness

#endif  // HARNESS_MEASURE_ALTERNATING_ROUNDS_H_

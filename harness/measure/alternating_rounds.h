// Rounds of runs that are compared with each other: every side once a round, and in every other
// round from the last side to the first.
//
// What drifts meanwhile, such as a disk's burst allowance or a neighbour, falls on all sides alike.
// One thread; a run may start threads of its own.
#ifndef HARNESS_MEASURE_ALTERNATING_ROUNDS_H_
#define HARNESS_MEASURE_ALTERNATING_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace harness {

// The run of one side; false ends the rounds.
using Turn = std::function<bool()>;

// The round of this number, from 0 on. False when a turn was, or when the user has interrupted:
// then the round is not whole.
bool AlternatingRound(uint32_t round, const std::vector<Turn>& turns);

// So many rounds. Calls `after_round` with its number when a round is whole. False as above.
bool AlternatingRounds(uint32_t round_count, const std::vector<Turn>& turns,
                       const std::function<void(uint32_t round)>& after_round);

}  // namespace harness

#endif  // HARNESS_MEASURE_ALTERNATING_ROUNDS_H_

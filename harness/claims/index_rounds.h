// Alternating rounds of turns that end with a Status.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_ROUNDS_H_
#define HARNESS_CLAIMS_INDEX_ROUNDS_H_

#include <functional>
#include <vector>

#include "engine_race/base/status.h"

namespace harness {

using StatusTurn = std::function<engine_race::Status()>;

// The status of a run that the user has interrupted.
engine_race::Status InterruptedStatus();

// Runs AlternatingRounds of `turns`. Returns the first failure of a turn, which ends the rounds, or
// InterruptedStatus.
engine_race::Status StatusRounds(uint32_t round_count, const std::vector<StatusTurn>& turns,
                                 const std::function<void()>& after_round);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_ROUNDS_H_

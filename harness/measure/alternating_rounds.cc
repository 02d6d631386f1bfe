#include "harness/measure/alternating_rounds.h"

#include <cstddef>

#include "harness/system/child_process.h"

namespace harness {

using engine_race::Status;

Status AlternatingRound(uint32_t round, const std::vector<Turn>& turns) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (Interrupted()) return InterruptedStatus();
    ENGINE_RACE_RETURN_IF_ERROR(turns[round % 2 == 0 ? i : turns.size() - 1 - i]());
  }
  return Interrupted() ? InterruptedStatus() : Status::Ok();
}

Status AlternatingRounds(uint32_t round_count, const std::vector<Turn>& turns,
                         const std::function<void(uint32_t round)>& after_round) {
  for (uint32_t round = 0; round < round_count; ++round) {
    ENGINE_RACE_RETURN_IF_ERROR(AlternatingRound(round, turns));
    after_round(round);
  }
  return Status::Ok();
}

}  // namespace harness

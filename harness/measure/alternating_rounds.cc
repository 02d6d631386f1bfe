#include "harness/measure/alternating_rounds.h"

#include <cstddef>

#include "harness/system/child_process.h"

namespace harness {

bool AlternatingRound(uint32_t round, const std::vector<Turn>& turns) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (Interrupted() || !turns[round % 2 == 0 ? i : turns.size() - 1 - i]()) return false;
  }
  return !Interrupted();
}

bool AlternatingRounds(uint32_t round_count, const std::vector<Turn>& turns,
                       const std::function<void(uint32_t round)>& after_round) {
  for (uint32_t round = 0; round < round_count; ++round) {
    if (!AlternatingRound(round, turns)) return false;
    after_round(round);
  }
  return true;
}

}  // namespace harness

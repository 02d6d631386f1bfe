#include "harness/claims/index_rounds.h"

#include "harness/measure/alternating_rounds.h"

namespace harness {

using engine_race::Status;

Status InterruptedStatus() { return Status(engine_race::Code::kIncomplete, "interrupted"); }

Status StatusRounds(uint32_t round_count, const std::vector<StatusTurn>& turns,
                    const std::function<void()>& after_round) {
  Status status;
  std::vector<Turn> plain;
  plain.reserve(turns.size());
  for (const StatusTurn& turn : turns) {
    plain.push_back([&status, &turn] { return (status = turn()).ok(); });
  }
  const bool whole = AlternatingRounds(round_count, plain, [&](uint32_t) { after_round(); });
  return whole || !status.ok() ? status : InterruptedStatus();
}

}  // namespace harness

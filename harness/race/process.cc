#include "harness/race/process.h"

#include <nlohmann/json.hpp>

#include "harness/race/json.h"
#include "harness/system/own_child.h"
#include "harness/system/own_text.h"

namespace harness {

using engine_race::Status;

PhaseResult RunPhaseProcess(Phase phase, const RaceConfig& config) {
  nlohmann::json answer;
  const Status status = RunOwnChild(kPhaseWork, OrderOf({phase, config}), &answer);
  PhaseResult result;
  if (answer.contains("seconds")) answer.get_to(result);
  if (!status.ok() && result.error.empty()) result.error = status.message();
  return result;
}

Status RunPhaseWork(const nlohmann::json& json, nlohmann::json* answer) {
  const auto order = json.get<PhaseOrder>();
  if (order.config.moves_text) ENGINE_RACE_RETURN_IF_ERROR(MoveTextToOwnMemory());
  *answer = RunPhase(order.phase, order.config);
  return Status::Ok();
}

}  // namespace harness

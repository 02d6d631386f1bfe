// Gives a phase its own process.
//
// A program that calls RunPhaseProcess has kPhaseWork among the works of its children. Not
// thread-safe.
#ifndef HARNESS_RACE_PROCESS_H_
#define HARNESS_RACE_PROCESS_H_

#include <nlohmann/json_fwd.hpp>

#include "engine_race/base/status.h"
#include "harness/race/phase.h"

namespace harness {

inline constexpr char kPhaseWork[] = "phase";
engine_race::Status RunPhaseWork(const nlohmann::json& order, nlohmann::json* answer);

// Runs a phase in a process of its own and waits for it. A child that dies gives a failed result.
PhaseResult RunPhaseProcess(Phase phase, const RaceConfig& config);

}  // namespace harness

#endif  // HARNESS_RACE_PROCESS_H_

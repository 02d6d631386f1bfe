// Gives a phase its own process; configurations and results travel as JSON.
//
// The child is the same program, run again with a flag of its own. A program that calls
// RunPhaseProcess begins its main with PhaseMain. Not thread-safe.
#ifndef HARNESS_RACE_PROCESS_H_
#define HARNESS_RACE_PROCESS_H_

#include <optional>

#include "harness/race/phase.h"

namespace harness {

// Runs a phase in a process of its own and waits for it. A child that dies gives a failed result.
PhaseResult RunPhaseProcess(Phase phase, const RaceConfig& config);

// When this process was started by RunPhaseProcess, runs the phase and returns the exit code.
std::optional<int> PhaseMain(int argc, char** argv);

}  // namespace harness

#endif  // HARNESS_RACE_PROCESS_H_

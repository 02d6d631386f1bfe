// A comparison's runs as tables for the terminal: losses beside wins.
//
// Pure functions of "runs" as docs/bench.md has them.
#ifndef HARNESS_COMPARE_REPORT_H_
#define HARNESS_COMPARE_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace engine_race::harness {

// For each phase a table of its stores: the medians of their rounds, and the spread of the rates.
std::string PhaseTables(const nlohmann::json& runs);
// The engine beside the best of the others, phase by phase. A store that reads fewer records than
// the dataset has is never the best one. A note names these stores and those of `failed_runs`.
std::string WinsTable(const nlohmann::json& runs, const nlohmann::json& failed_runs);

}  // namespace engine_race::harness

#endif  // HARNESS_COMPARE_REPORT_H_

// Configurations, results and reports of a race as JSON: for files, for the processes of phases and
// for benches.
//
// Pure functions, except SaveRace.
#ifndef HARNESS_RACE_JSON_H_
#define HARNESS_RACE_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/race/phase.h"
#include "harness/race/runner.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseResult, ok, error, seconds, open_seconds, close_seconds,
                                   record_count, pass_seconds, mean_ns, p50_ns, p99_ns, p999_ns,
                                   max_ns, peak_rss_bytes, cpu_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FioResult, ok, error, job, bytes, seconds, bytes_per_second,
                                   ops_per_second)

void to_json(nlohmann::json& json, const RaceConfig& config);
void to_json(nlohmann::json& json, const PhaseReport& report);

// ParseConfig returns nothing for a text that is not a configuration.
std::string ConfigText(const RaceConfig& config);
std::optional<RaceConfig> ParseConfig(const std::string& text);

// The order of a phase's process.
struct PhaseOrder {
  Phase phase = Phase::kWrite;
  RaceConfig config;
};
nlohmann::json OrderOf(const PhaseOrder& order);
void from_json(const nlohmann::json& json, PhaseOrder& order);

// Writes the whole race into the file `path`, with the machine. An empty path writes nothing and
// succeeds; false when the file cannot be written.
bool SaveRace(const RaceConfig& config, const std::vector<PhaseReport>& reports, bool ok,
              const std::string& path);

}  // namespace engine_race::harness

#endif  // HARNESS_RACE_JSON_H_

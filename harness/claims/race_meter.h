// Phases of the race, measured for claims: alone, or beside the device.
//
// A store is deleted as soon as it has been measured.
#ifndef HARNESS_CLAIMS_RACE_METER_H_
#define HARNESS_CLAIMS_RACE_METER_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/measure/claim_rounds.h"
#include "harness/race/runner.h"

namespace engine_race::harness {

// The claims of a race beside the device.
inline constexpr char kWriteRatio[] = "write_ratio";
inline constexpr char kReadRatio[] = "read_ratio";
inline constexpr char kRangeRatio[] = "range_ratio";
inline constexpr char kRangePass2[] = "range_pass2_ratio";
inline constexpr char kTotalVsDevice[] = "total_vs_device";

class RaceMeter {
 public:
  // `rounds` outlives this. In a smoke run the device may be unknown.
  RaceMeter(bool is_smoke, ClaimRounds* rounds) : is_smoke_(is_smoke), rounds_(rounds) {}

  // Takes a directory for its stores and fio's files; must come first.
  Status Prepare(const std::string& dir);

  // Runs one race with fio before and after each phase, as far as the wanted claims need it. Their
  // names get the suffix where they are noted.
  Status BesideDevice(RaceConfig config, const std::set<std::string>& wanted,
                      const std::string& suffix = "");
  // Writes a new store and, if `phase` is kRead, reads it cold. Notes the bytes a second of the
  // phase under its label.
  Status Alone(Phase phase, RaceConfig config, const std::string& label);
  // Races write, read and range without the device. Notes the seconds of all under `figure`.
  Status Whole(RaceConfig config, const std::string& figure);

  // Every phase that was measured.
  const nlohmann::json& phases() const { return phases_; }

 private:
  // Measures a phase and notes its figures.
  Status Measure(Phase phase, const RaceConfig& config, FioRunner* fio, const std::string& label,
                 PhaseReport* report);
  Status StartStore(RaceConfig* config);
  // Notes the time of one round's phases over the time that the device would need for them.
  void NoteTotal(const std::vector<PhaseReport>& phases);
  // Keeps fio's figures for the description of the machine.
  void NoteDevice(const PhaseReport& report);
  Status NoteFraction(const std::string& figure, const PhaseReport& report,
                      double bytes_per_second);

  const bool is_smoke_;
  ClaimRounds* const rounds_;
  RaceDir dir_;
  // How often each phase was measured, by phase and label.
  std::map<std::string, uint32_t> counts_;
  nlohmann::json phases_ = nlohmann::json::array();
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_RACE_METER_H_

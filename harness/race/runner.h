// One phase beside the device: page cache dropped, fio, the phase in its process, fio again.
//
// A program that calls MeasurePhase has kPhaseWork among the works of its children.
#ifndef HARNESS_RACE_RUNNER_H_
#define HARNESS_RACE_RUNNER_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/race/phase.h"
#include "harness/system/fio_runner.h"
#include "harness/system/work_dir.h"

namespace engine_race::harness {

struct PhaseReport {
  Phase phase = Phase::kWrite;
  PhaseResult result;
  // Not ok when fio was not wanted, is missing or failed.
  FioResult before;
  FioResult after;
  // How the page cache was dropped before the phase.
  std::string cache_drop;

  bool has_device() const { return before.ok && after.ok; }
  // The mean of the two runs of fio; 0 without them. In a read phase the bytes are those of as many
  // values as fio read blocks.
  double DeviceBytesPerSecond() const;
  // `bytes_per_second` as a fraction of the device's rate; 0 when that is unknown.
  double FractionOf(double bytes_per_second) const;
};

inline constexpr char kPhaseWork[] = "phase";
Status RunPhaseWork(const nlohmann::json& order, nlohmann::json* answer);

// `fio` may be null: then only the phase runs. A process that dies gives a failed result.
PhaseReport MeasurePhase(Phase phase, const RaceConfig& config, FioRunner* fio);

// How a race of another size than the contest's is marked.
std::string NotTheContest(const RaceConfig& config);

// The table that bin/race ends with: one line a phase, two for the range.
std::string ReportTable(const std::vector<PhaseReport>& reports);

// Configurations, results and reports as JSON: for files, processes of phases and benches.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseResult, ok, error, seconds, open_seconds, close_seconds,
                                   record_count, value_bytes, pass_seconds, mean_ns, p50_ns, p99_ns,
                                   p999_ns, max_ns, peak_rss_bytes, cpu_seconds)
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

// The directory of a race: a guarded working directory with a note of what its store holds.
//
// A note beside the store says that a race made it and with which records. Only a directory that
// has a note, or is empty, is ever written to.
class RaceDir {
 public:
  RaceDir() = default;
  RaceDir(const RaceDir&) = delete;
  RaceDir& operator=(const RaceDir&) = delete;
  // Removes the store and its directory if Prepare has chosen the directory.
  ~RaceDir();

  // Takes `path` and makes it when it is missing. An empty `path` makes a fresh directory below the
  // current one. Refuses a directory that holds anything but a race's store.
  Status Prepare(const std::string& path);

  const std::string& path() const { return dir_.path(); }

  // Empties the directory for a new store and notes what it will hold.
  Status StartStore(const RaceConfig& config);
  // The configuration of the store here; only its threads, records, sizes, keys and seed are valid.
  std::optional<RaceConfig> ReadNote() const;
  // Removes the store and the note, and syncs, so that the next writer does not pay for it.
  void RemoveStore();

 private:
  WorkDir dir_;
  bool is_fresh_ = false;
};

}  // namespace engine_race::harness

#endif  // HARNESS_RACE_RUNNER_H_

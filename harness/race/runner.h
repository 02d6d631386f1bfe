// The phases of the race, each in a process of its own: write; read; reads mixed with writes; range
// twice.
//
// A phase opens the store, runs its threads and closes it. It checks all that it reads.
#ifndef HARNESS_RACE_RUNNER_H_
#define HARNESS_RACE_RUNNER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/load/contest_phases.h"
#include "harness/system/disk.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {

// Where instances of a race wait for each other: each says a line and goes on when it is answered.
// The lines are "ready" when all is checked and nothing changed yet, then "start PHASE" and
// "done PHASE PID" for each phase. The launcher of the instances holds the other ends of two pipes.
// It answers all instances when all of them have said their line, and closes its ends to stop them.

// Descriptors that are inherited by the processes of phases. -1: there are no other instances.
struct GateFds {
  int in = -1;
  int out = -1;
};

// Writes the line and waits for one in return. True at once without other instances; false when the
// other end has been closed.
bool PassGate(const GateFds& fds, const std::string& line);

// kMixed reads and overwrites keys at random, as many of each: the only one that a race leaves out
// unless it is asked for.
enum class Phase { kWrite, kRead, kMixed, kRange };
inline const char* PhaseName(Phase phase) {
  constexpr const char* kNames[] = {"write", "read", "mixed", "range"};
  return kNames[static_cast<size_t>(phase)];
}

struct RaceConfig {
  std::string dir;
  uint32_t thread_count = 64;
  uint64_t records_per_thread = 20000;
  uint32_t value_bytes = kValueSize;
  // Of the phases that draw records; 0: as many as records.
  uint64_t reads_per_thread = 0;
  // The threads of a range; 0: as many as of the other phases.
  uint32_t range_thread_count = 0;
  KeyShape keys = KeyShape::kUniform;
  // The keys that the store takes, over which the shape is laid.
  KeyRange key_range;
  uint64_t seed = 1;
  uint64_t memory_budget_bytes = uint64_t{2} << 30;
  // Geometry of a new store; 0 takes the engine's default.
  uint32_t value_group_bytes = 0;
  // False: a range checks keys and counts records, but does not check values.
  bool checks_ranged_values = true;
  // Where the store puts its memory.
  NumaOptions numa;
  // Moves the text of each phase's process to memory of its own node before the phase begins.
  bool moves_text = false;
  // False: no phase writes the index to disk unless memory asks for it.
  bool writes_index = true;
  // Where phases of several instances wait for each other.
  GateFds gate;

  uint64_t record_count() const { return thread_count * records_per_thread; }
  uint64_t reads_each() const {
    return reads_per_thread > 0 ? reads_per_thread : records_per_thread;
  }
  bool has_contest_size() const { return value_bytes == kValueSize; }
};

struct PhaseResult {
  bool ok = false;
  // The first thing that went wrong.
  std::string error;
  // From before Open until the store is closed; the two ends of it apart.
  double seconds = 0;
  double open_seconds = 0;
  double close_seconds = 0;
  // Records written or read; for a range the records visited once.
  uint64_t record_count = 0;
  uint32_t value_bytes = kValueSize;
  // Range: the first pass from before Open, the second from the barrier between them.
  std::array<double, kRangePasses> pass_seconds = {};
  // Latency of one Write or Read.
  double mean_ns = 0;
  uint64_t p50_ns = 0;
  uint64_t p99_ns = 0;
  uint64_t p999_ns = 0;
  uint64_t max_ns = 0;
  uint64_t peak_rss_bytes = 0;
  double cpu_seconds = 0;

  // The rate of the whole phase, and of one pass of a range.
  double BytesPerSecond() const;
  double PassBytesPerSecond(uint32_t pass) const;
};

// Opens the store that the configuration describes. Its warnings go to standard error.
Status OpenStore(const RaceConfig& config, std::unique_ptr<Store>* store);

// Runs a phase in this process.
PhaseResult RunPhase(Phase phase, const RaceConfig& config);

// One phase beside the device: page cache dropped, fio, the phase in its process, fio again.
//
// A program that calls MeasurePhase has kPhaseWork among the works of its children.
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
void from_json(const nlohmann::json& json, RaceConfig& config);
void to_json(nlohmann::json& json, const PhaseReport& report);

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

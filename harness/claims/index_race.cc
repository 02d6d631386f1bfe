#include "harness/claims/index_race.h"

#include <string>
#include <vector>

#include "harness/measure/alternating_rounds.h"
#include "harness/race/dir.h"
#include "harness/race/runner.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

using engine_race::Status;

// The seconds of a whole race: write, read and range, each in a process of its own.
Status RunRace(const RaceConfig& config, RaceDir* dir, double* seconds) {
  std::string error;
  if (!dir->StartStore(config, &error)) return Status::IOError(error);
  *seconds = 0;
  for (const Phase phase : {Phase::kWrite, Phase::kRead, Phase::kRange}) {
    const PhaseReport report = MeasurePhase(phase, config, nullptr);
    if (Interrupted()) return InterruptedStatus();
    if (!report.result.ok) return Status::IOError("race: " + report.result.error);
    *seconds += report.result.seconds;
  }
  return Status::Ok();
}

}  // namespace

Status MeasureRaceCost(const IndexBenchRun& run) {
  RaceDir dir;
  std::string error;
  if (!dir.Prepare(run.store_dir(), &error)) return Status::IOError(error);
  RaceConfig with;
  with.dir = dir.path();
  with.thread_count = run.config.reader_count;
  with.records_per_thread = run.config.race_records_per_thread;
  with.seed = run.config.seed;
  RaceConfig without = with;
  without.writes_index = false;
  double with_seconds = 0;
  double without_seconds = 0;
  const std::vector<Turn> turns = {[&] { return RunRace(with, &dir, &with_seconds); },
                                   [&] { return RunRace(without, &dir, &without_seconds); }};
  const Status status = AlternatingRounds(run.config.round_count, turns, [&](uint32_t) {
    run.rounds->Note("race_s, index on disk", with_seconds);
    run.rounds->Note("race_s, no index on disk", without_seconds);
    run.rounds->Note(kRaceCost, with_seconds / without_seconds - 1);
  });
  dir.RemoveStore();
  return status;
}

}  // namespace harness

// The cost of reclaim for a store that is never overwritten.
#include <string>

#include "harness/claims/space_measurements.h"
#include "harness/claims/space_runs.h"
#include "harness/load/store_runs.h"
#include "harness/measure/alternating_rounds.h"

namespace harness {

using engine_race::Reclaim;
using engine_race::Status;

Status MeasureCost(const SpaceConfig& config, SpaceReport* report) {
  const uint64_t record_count = config.cost_bytes / kValueSize;
  StoreRuns runs({.dir = config.memory_dir + "/cost",
                  .cache_dir = {},
                  .record_count = record_count,
                  .seed = config.seed});
  const auto fill = [&](Reclaim reclaim, double* cpu_ns) {
    return [&, reclaim, cpu_ns] {
      const TimedRun run = runs.Write(SpaceOptions(config, reclaim), config.cost_thread_count);
      *cpu_ns = run.cpu_ns();
      return runs.status();
    };
  };
  double on_ns = 0;
  double off_ns = 0;
  const Status status = AlternatingRounds(
      config.cost_round_count, {fill(Reclaim::kBackground, &on_ns), fill(Reclaim::kOff, &off_ns)},
      [&](uint32_t) {
        report->rounds->Note("no_overwrite_cost", on_ns / off_ns - 1);
        report->rounds->Note("fill with reclaim, CPU ns a write", on_ns);
        report->rounds->Note("fill without reclaim, CPU ns a write", off_ns);
      });
  runs.Remove({});
  return status;
}

}  // namespace harness

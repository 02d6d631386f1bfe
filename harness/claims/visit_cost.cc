#include "harness/claims/visit_cost.h"

#include <algorithm>

#include "harness/load/bare_reads.h"
#include "harness/measure/progress.h"
#include "harness/measure/workers.h"
#include "harness/race/open_store.h"
#include "harness/race/range_run.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Status;

RaceConfig WithRaceMemory(RaceConfig race) {
  // Staging and index, and three eighths of the values.
  constexpr uint64_t kOtherBytes = 288 * 1024 * 1024;
  race.memory_budget_bytes = kOtherBytes + race.record_count() * kValueSize * 3 / 8;
  return race;
}

VisitCost::VisitCost(const RaceConfig& race)
    : race_(race),
      keys_(race.keys, race.record_count(), race.seed),
      values_(race.seed),
      summary_(keys_.Summarize()),
      floor_(keys_, values_, race.thread_count) {}

bool VisitCost::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
  return false;
}

bool VisitCost::Prepare() {
  const PhaseResult written = RunPhase(Phase::kWrite, race_);
  if (!written.ok) return Fail(written.error);
  const Status status = floor_.Prepare();
  if (!status.ok()) return Fail(status.ToString());
  floor_.FindBest();
  return floor_.failure().empty() || Fail(floor_.failure());
}

bool VisitCost::Round(VisitCosts* costs) {
  double kept_fraction = 0;
  if (!Passes(costs, &kept_fraction) || !Reads(kept_fraction, costs)) return false;
  costs->floor_ns = floor_.RunBest(LoopVisitors::kRace);
  costs->inlined_floor_ns = floor_.RunBest(LoopVisitors::kInlinedRace);
  costs->ends_floor_ns = floor_.RunBest(LoopVisitors::kInlinedEnds);
  return floor_.failure().empty() || Fail(floor_.failure());
}

bool VisitCost::Passes(VisitCosts* costs, double* kept_fraction) {
  Failures failures;
  const std::unique_ptr<engine_race::Store> store = OpenStore(race_, &failures);
  if (store == nullptr) return Fail(failures.first());
  // Builds the index, which is no part of a visit.
  std::string value;
  const Status read = store->Read(KeyBytesOf(keys_.KeyAt(0)), &value);
  if (!read.ok()) return Fail("read: " + read.ToString());
  Progress progress("visits", summary_.distinct_count * race_.thread_count * kRangePasses,
                    kValueSize, race_.thread_count);
  const double visits = static_cast<double>(summary_.distinct_count) * race_.thread_count;
  double cpu_s = CpuSeconds();
  RangeRun run(keys_, values_, summary_, store.get(), &failures, &progress, race_.thread_count,
               /*checks_values=*/true);
  run.Run(NowNs(), [&](uint32_t pass, double) {
    const double now_s = CpuSeconds();
    costs->visit_ns[pass] = (now_s - cpu_s) * 1e9 / visits;
    cpu_s = now_s;
  });
  const double value_bytes = static_cast<double>(summary_.distinct_count) * kValueSize;
  *kept_fraction =
      std::min(1.0, static_cast<double>(store->Stats().range_memory_bytes) / value_bytes);
  return !failures.any() || Fail(failures.first());
}

bool VisitCost::Reads(double kept_fraction, VisitCosts* costs) {
  BareReads reads;
  reads.dir = race_.dir;
  TimedRun run;
  const Status status = RunBareReads(reads, &run);
  if (!status.ok()) return Fail(status.ToString());
  const double all_ns = run.cpu_ns() / race_.thread_count;
  costs->reads_ns = {all_ns, all_ns * (1 - kept_fraction)};
  return true;
}

}  // namespace harness

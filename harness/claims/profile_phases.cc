#include "harness/claims/profile_phases.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "harness/claims/scan_ranges.h"
#include "harness/claims/visit_cost.h"
#include "harness/load/scan_writers.h"
#include "harness/load/store_runs.h"
#include "harness/measure/claim_rounds.h"
#include "harness/measure/median.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Status;

namespace {

constexpr uint32_t kKeysPerCall = 1024;
constexpr uint32_t kCallers = 2;
constexpr uint32_t kPasses = 2;
constexpr uint32_t kWriters = 4;

// Runs `body` with the profiler switched on.
std::string Profiled(const ProfilerSwitch& profiler, const std::function<std::string()>& body) {
  if (!profiler.Turn(true)) return "the profiler does not answer";
  std::string failure = body();
  if (failure.empty() && !profiler.Turn(false)) failure = "the profiler does not answer";
  return failure;
}

std::string ShortRanges(const ProfileConfig& config, const ProfilerSwitch& profiler, bool kept) {
  ClaimRounds unused({});
  ScanRanges ranges({config.dir, config.key_count, 1, config.seconds, config.seed}, &unused);
  Status status = ranges.Prepare();
  // Without the cache each iterator is set up anew: that is the path to profile.
  if (status.ok()) status = ranges.Open(/*cache_iterators=*/kept);
  if (!status.ok()) return status.ToString();
  return Profiled(profiler, [&] {
    const Status ran = ranges.Repeat(kept);
    return ran.ok() ? std::string() : ran.ToString();
  });
}

std::string Seek(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  return ShortRanges(config, profiler, /*kept=*/true);
}

std::string SetUp(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  return ShortRanges(config, profiler, /*kept=*/false);
}

StoreRuns RunsOf(const ProfileConfig& config) {
  // No page cache is dropped: the profile should show only the run.
  return StoreRuns({config.dir + "/store", "", config.record_count, config.seed});
}

// Runs over an existing store, as often as the time allows.
std::string OverStore(const ProfileConfig& config, const ProfilerSwitch& profiler,
                      const std::function<bool(StoreRuns*)>& body) {
  StoreRuns runs = RunsOf(config);
  std::string failure;
  if (runs.Write(QuietOptions(), config.thread_count).ok()) {
    failure = Profiled(profiler, [&] {
      const uint64_t start_ns = NowNs();
      while (body(&runs) && SecondsSince(start_ns) < config.seconds) {
      }
      return runs.failure();
    });
  }
  runs.Remove(QuietOptions());
  return failure.empty() ? runs.failure() : failure;
}

std::string Range(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  return OverStore(config, profiler, [&](StoreRuns* runs) {
    return runs->Ranges(QuietOptions(), config.thread_count, kPasses)[kPasses - 1].ok();
  });
}

std::string Read(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  return OverStore(config, profiler, [&](StoreRuns* runs) {
    return runs->Read(QuietOptions(), config.thread_count, config.seconds).ok();
  });
}

std::string MultiRead(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  return OverStore(config, profiler, [&](StoreRuns* runs) {
    return runs->MultiRead(QuietOptions(), kCallers, kKeysPerCall, config.seconds).ok();
  });
}

std::string Write(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  StoreRuns runs = RunsOf(config);
  std::string failure = Profiled(profiler, [&] {
    const uint64_t start_ns = NowNs();
    while (runs.Write(QuietOptions(), config.thread_count).ok() &&
           SecondsSince(start_ns) < config.seconds) {
    }
    return runs.failure();
  });
  runs.Remove(QuietOptions());
  return failure;
}

// The columns of VisitCosts that are printed.
std::array<double, 6> FiguresOf(const VisitCosts& costs) {
  return {costs.visit_ns[0], costs.visit_ns[1],      costs.mean_reads_ns(),
          costs.floor_ns,    costs.inlined_floor_ns, costs.ends_floor_ns};
}

void PrintVisits(const char* name, const std::array<double, 6>& figures) {
  const double besides_reads = (figures[0] + figures[1]) / 2 - figures[2];
  std::printf("%-7s", name);
  for (const double figure : figures) std::printf(" %7.1f", figure);
  std::printf(" %7.1f %6.2f\n", besides_reads - figures[3], besides_reads / figures[3]);
  std::fflush(stdout);
}

// Prints each round, then medians. The profiler sees all of a round.
std::string Visits(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  RaceConfig race;
  race.dir = config.dir + "/store";
  race.thread_count = config.thread_count;
  race.records_per_thread = config.record_count / config.thread_count;
  race.seed = config.seed;
  VisitCost cost(WithRaceMemory(race));
  if (!cost.Prepare()) return cost.failure();
  std::printf("CPU time of a visit, ns; bare loop: %s\n", cost.floor_shape().ToString().c_str());
  std::printf(
      "         pass 1  pass 2   reads   floor inlined    ends    rest  (pass-reads)/floor\n");
  std::array<std::vector<double>, 6> columns;
  const std::string failure = Profiled(profiler, [&] {
    const uint64_t start_ns = NowNs();
    do {
      VisitCosts costs;
      if (!cost.Round(&costs)) break;
      PrintVisits("round", FiguresOf(costs));
      for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(FiguresOf(costs)[i]);
    } while (SecondsSince(start_ns) < config.seconds);
    return cost.failure();
  });
  std::array<double, 6> medians = {};
  for (size_t i = 0; i < columns.size(); ++i) medians[i] = MedianOf(columns[i]);
  if (failure.empty()) PrintVisits("median", medians);
  std::filesystem::remove_all(race.dir);
  return failure;
}

std::string Scan(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  ScanWriters writers(config.dir + "/store", config.record_count, config.seed);
  return Profiled(profiler, [&] {
    const uint64_t start_ns = NowNs();
    do {
      writers.Overwrite(kWriters, /*scanning=*/true);
    } while (writers.failure().empty() && SecondsSince(start_ns) < config.seconds);
    return writers.failure();
  });
}

}  // namespace

const std::vector<ProfilePhase>& AllProfilePhases() {
  static const std::vector<ProfilePhase> phases = {
      {"seek", "queries of ten short ranges, by an iterator that is kept", Seek},
      {"setup", "the same by an iterator for each range, none of them cached", SetUp},
      {"scan", "an iterator over keys and values, four writers beside it", Scan},
      {"range", "all threads over everything, twice in each opening", Range},
      {"visits", "the same with a race's visitors; prints what a visit costs and its floor",
       Visits},
      {"read", "all threads, keys by chance", Read},
      {"multiread", "a thousand keys a call", MultiRead},
      {"write", "all threads, new keys", Write}};
  return phases;
}

}  // namespace harness

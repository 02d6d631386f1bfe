// Runs single phases of the engine for a profiler. Each prepares its store, tells the profiler to
// begin, and runs for the configured time. scripts/flame draws the profile.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "harness/claims/scan_seeks.h"
#include "harness/claims/visit_cost.h"
#include "harness/load/scan_writers.h"
#include "harness/load/store_basics.h"
#include "harness/load/store_runs.h"
#include "harness/measure/claim_rounds.h"
#include "harness/measure/median.h"
#include "harness/system/command_line.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr char kProgram[] = "profile";
struct ProfileConfig {
  std::string dir;  // empty and writable; on a tmpfs for phases whose device should cost nothing
  uint64_t key_count = 20000000;  // of the phases that need keys only
  uint64_t record_count = 262144;
  uint32_t thread_count = 64;
  double seconds = 5;
  uint64_t seed = 1;
};

struct ProfilePhase {
  const char* name;
  const char* about;
  Status (*run)(const ProfileConfig& config, const ProfilerSwitch& profiler);
};

constexpr uint32_t kKeysPerCall = 1024;
constexpr uint32_t kCallers = 2;
constexpr uint32_t kPasses = 2;
constexpr uint32_t kWriters = 4;

// Runs `body` with the profiler switched on, as often as the time allows.
Status Profiled(const ProfileConfig& config, const ProfilerSwitch& profiler,
                const std::function<Status()>& body) {
  const Status no_answer = Status::IOError("the profiler does not answer");
  if (!profiler.Turn(true)) return no_answer;
  const uint64_t start_ns = NowNs();
  do {
    ENGINE_RACE_RETURN_IF_ERROR(body());
  } while (SecondsSince(start_ns) < config.seconds);
  return profiler.Turn(false) ? Status::Ok() : no_answer;
}

Status ShortRanges(const ProfileConfig& config, const ProfilerSwitch& profiler, bool kept) {
  ClaimRounds unused({});
  ScanRanges ranges({config.dir, config.key_count, 1, config.seconds, config.seed}, &unused);
  ENGINE_RACE_RETURN_IF_ERROR(ranges.Prepare());
  // Without the cache each iterator is set up anew: that is the path to profile.
  ENGINE_RACE_RETURN_IF_ERROR(ranges.Open(/*cache_iterators=*/kept));
  return Profiled(config, profiler,
                  [&] { return kept ? ranges.Kept("kept") : ranges.OneForEach("each"); });
}

// Runs over a store that is written first, or not.
Status OverStore(const ProfileConfig& config, const ProfilerSwitch& profiler, bool is_written,
                 const std::function<void(StoreRuns*)>& body) {
  // No page cache is dropped: the profile should show only the run.
  StoreRuns runs({config.dir + "/store", "", config.record_count, config.seed});
  if (is_written) {
    ENGINE_RACE_RETURN_IF_ERROR(runs.Fill(QuietOptions(), config.thread_count));
  }
  return Profiled(config, profiler, [&] {
    body(&runs);
    return runs.status();
  });
}

Status Scan(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  ScanWriters writers(config.dir + "/store", config.record_count, config.seed);
  return Profiled(config, profiler, [&] {
    WriterCost unused;
    return writers.Overwrite(kWriters, /*scanning=*/true, &unused);
  });
}

// The columns of VisitCosts that are printed.
constexpr size_t kColumns = 6;
using VisitFigures = std::array<double, kColumns>;

void PrintVisits(const char* name, const VisitFigures& figures) {
  const double besides_reads = (figures[0] + figures[1]) / 2 - figures[2];
  std::printf("%-7s", name);
  for (const double figure : figures) std::printf(" %7.1f", figure);
  std::printf(" %7.1f %6.2f\n", besides_reads - figures[3], besides_reads / figures[3]);
  std::fflush(stdout);
}

// Prints each round, then medians. The profiler sees all of a round.
Status Visits(const ProfileConfig& config, const ProfilerSwitch& profiler) {
  RaceConfig race;
  race.dir = config.dir + "/store";
  race.thread_count = config.thread_count;
  race.records_per_thread = config.record_count / config.thread_count;
  race.seed = config.seed;
  VisitCost cost(WithRaceMemory(race));
  ENGINE_RACE_RETURN_IF_ERROR(cost.Prepare());
  std::printf("CPU time of a visit, ns; bare loop: %s\n", cost.floor_shape().ToString().c_str());
  std::printf(
      "         pass 1  pass 2   reads   floor inlined    ends    rest  (pass-reads)/floor\n");
  std::array<std::vector<double>, kColumns> columns;
  ENGINE_RACE_RETURN_IF_ERROR(Profiled(config, profiler, [&] {
    VisitCosts costs;
    ENGINE_RACE_RETURN_IF_ERROR(cost.Round(&costs));
    const VisitFigures figures = {costs.visit_ns[0], costs.visit_ns[1],      costs.mean_reads_ns(),
                                  costs.floor_ns,    costs.inlined_floor_ns, costs.ends_floor_ns};
    PrintVisits("round", figures);
    for (size_t i = 0; i < kColumns; ++i) columns[i].push_back(figures[i]);
    return Status::Ok();
  }));
  VisitFigures medians = {};
  for (size_t i = 0; i < kColumns; ++i) medians[i] = MedianOf(columns[i]);
  PrintVisits("median", medians);
  return Status::Ok();
}

const ProfilePhase kPhases[] = {
    {"seek", "queries of ten short ranges, by an iterator that is kept",
     [](const auto& config, const auto& profiler) { return ShortRanges(config, profiler, true); }},
    {"setup", "the same by an iterator for each range, none of them cached",
     [](const auto& config, const auto& profiler) { return ShortRanges(config, profiler, false); }},
    {"scan", "an iterator over keys and values, four writers beside it", Scan},
    {"range", "all threads over everything, twice in each opening",
     [](const auto& config, const auto& profiler) {
       return OverStore(config, profiler, true, [&](StoreRuns* runs) {
         runs->Ranges(QuietOptions(), config.thread_count, kPasses);
       });
     }},
    {"visits", "the same with a race's visitors; prints what a visit costs and its floor", Visits},
    {"read", "all threads, keys by chance",
     [](const auto& config, const auto& profiler) {
       return OverStore(config, profiler, true, [&](StoreRuns* runs) {
         runs->Read(QuietOptions(), config.thread_count, config.seconds);
       });
     }},
    {"multiread", "a thousand keys a call",
     [](const auto& config, const auto& profiler) {
       return OverStore(config, profiler, true, [&](StoreRuns* runs) {
         runs->MultiRead(QuietOptions(), kCallers, kKeysPerCall, config.seconds);
       });
     }},
    {"write", "all threads, new keys", [](const auto& config, const auto& profiler) {
       return OverStore(config, profiler, false,
                        [&](StoreRuns* runs) { runs->Write(QuietOptions(), config.thread_count); });
     }}};

struct ProfileFlags {
  ProfileConfig config;
  std::string phase;
  std::string parent = "/dev/shm";
  std::string control;
  std::string answer;
  bool is_smoke = false;
};

std::string PhaseList() {
  std::string text = "one of these, or all of them, one after another:";
  for (const ProfilePhase& phase : kPhases) {
    text += std::string("\n  ") + phase.name + ": " + phase.about;
  }
  return text;
}

std::vector<std::string> PhaseNames() {
  std::vector<std::string> names = {"all"};
  for (const ProfilePhase& phase : kPhases) names.push_back(phase.name);
  return names;
}

int Profile(ProfileFlags flags) {
  ProfileConfig& config = flags.config;
  if (flags.is_smoke) {
    config.key_count = 50000;
    config.record_count = 2000;
    config.thread_count = 4;
    config.seconds = 0.01;
  }
  const ProfilerSwitch profiler(flags.control, flags.answer);
  bool found = false;
  for (const ProfilePhase& phase : kPhases) {
    if (flags.phase != phase.name && flags.phase != "all") continue;
    found = true;
    // Space for two stores. A store of keys only is no larger than one of records.
    const ScratchDir dir(flags.parent, 2 * StoreBytes(config.record_count));
    if (dir.path().empty()) return Refuse(kProgram, "no room in " + flags.parent);
    config.dir = dir.path();
    const Status status = phase.run(config, profiler);
    if (status.ok()) continue;
    std::fprintf(stderr, "%s: %s: %s\n", kProgram, phase.name, status.ToString().c_str());
    return kExitFailure;
  }
  return found ? kExitDone : Refuse(kProgram, UnknownName("phase", flags.phase, PhaseNames()));
}

int Main(int argc, char** argv) {
  ProfileFlags flags;
  CLI::App app("Runs a phase of the engine, by default in memory, for a profiler to look at.");
  app.add_option("phase", flags.phase, PhaseList())->required();
  app.add_option("--dir", flags.parent, "where its store is made");
  app.add_option("--keys", flags.config.key_count, "of seek and setup")->check(AboveZero());
  app.add_option("--num", flags.config.record_count, "records of the others")->check(AboveZero());
  app.add_option("--threads", flags.config.thread_count)->check(AboveZero());
  app.add_option("--seconds", flags.config.seconds)->check(AboveZero());
  app.add_option("--seed", flags.config.seed);
  app.add_option("--control", flags.control, "of perf record --control fifo:CONTROL,ANSWER");
  app.add_option("--answer", flags.answer)->needs("--control");
  app.add_flag("--smoke", flags.is_smoke, "tiny, to see that it works");
  if (const auto code = ParseCommandLine("profile", argc, argv, &app)) return *code;
  return Profile(flags);
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }

// The engine beside RocksDB, LevelDB, LMDB and WiredTiger: the contest's phases and benchmarks, in
// alternating rounds, below one cap on memory. docs/peers.md has the rules.
#include <CLI/CLI.hpp>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "harness/bench/benchmark.h"
#include "harness/compare/comparison.h"
#include "harness/compare/process.h"
#include "harness/measure/claim_rounds.h"
#include "harness/measure/table.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {
namespace {

constexpr char kProgram[] = "compare";
constexpr double kGiB = 1 << 30;

struct CompareFlags {
  CompareConfig config;
  std::string dir;
  double gib = 8;
  double memory_gib = 2;
  double budget_gib = 0;
  double floor_gib = 1;
  std::string only;
  bool no_fio = false;
  bool smoke = false;
  bool check_only = false;
  std::vector<std::string> merges;
  std::string json_path;
};

std::vector<std::string> StoreNames() {
  std::vector<std::string> names;
  for (const KvStoreKind& kind : ComparedStores()) names.push_back(kind.name);
  return names;
}

// All but those that sync their writes: here no store does.
std::vector<std::string> ComparedBenchmarks() {
  std::vector<std::string> names = BenchmarkNames();
  std::erase_if(names, [](const std::string& name) { return FindBenchmark(name)->syncs; });
  return names;
}

void AddFlags(CompareFlags* flags, CLI::App* app) {
  CompareConfig& config = flags->config;
  config.stores = StoreNames();
  config.phases = {kWritePhase, kReadPhase, kRangePhase, kOpenPhase};
  app->add_option("--dir", flags->dir,
                  "made when missing; must be empty; by default a fresh one below the current one");
  app->add_option("--gib", flags->gib, "size of a store's records");
  app->add_option("--value_size", config.value_bytes, "bytes of each value")
      ->check(CLI::Range(kMinValueBytes, kMaxValueBytes));
  app->add_option("--threads", config.thread_count)->check(CLI::Range(1, 1024));
  app->add_option("--rounds", config.round_count)->check(CLI::Range(1, 1000));
  app->add_option("--openings", config.opening_count, "of each store in a round")
      ->check(CLI::Range(1, 1000));
  app->add_option("--stores", config.stores, "which stores take part")
      ->delimiter(',')
      ->check(OneOf("store", StoreNames()));
  app->add_option("--phases", config.phases, "of the contest; the writing is always run")
      ->delimiter(',')
      ->check(OneOf("phase", {kWritePhase, kReadPhase, kRangePhase, kOpenPhase}));
  app->add_option("--benchmarks", config.benchmarks,
                  "of bench, run after the contest; a fill comes first, with a fresh store")
      ->option_text("NAME,...")
      ->delimiter(',')
      ->check(OneOf("benchmark", ComparedBenchmarks()));
  app->add_option("--only", flags->only, "run one part alone")
      ->check(OneOf("part", {"contest", "benchmarks"}));
  app->add_option("--phase_seconds", config.phase_seconds,
                  "a store that takes longer counts by the rate that it reached");
  app->add_option("--fill_seconds", config.fill_seconds,
                  "this limit for phases that fill a store; 0: three times as much");
  app->add_option("--memory_gib", flags->memory_gib,
                  "cap on each phase's memory, page cache included; 0: none");
  app->add_option("--budget_gib", flags->budget_gib,
                  "what a store is told to take; 0: three quarters of the cap");
  app->add_option("--seed", config.seed);
  app->add_flag("--dense_keys", config.dense_keys, "keys of benchmarks are 0, 1, 2, ...");
  app->add_option("--floor_gib", flags->floor_gib, "what fio moves to find the device's rates");
  app->add_flag("--no_fio", flags->no_fio, "do not measure the device's rates");
  app->add_option("--merge", flags->merges, "take over the claims of another program's JSON");
  app->add_option("--json", flags->json_path, "where the figures go; by default nowhere");
  app->add_flag("--check_only", flags->check_only,
                "only look whether these flags and the disk's free space will do");
  app->add_flag("--smoke", flags->smoke, "everything once, tiny: no figure means much");
}

// Returns what is wrong with the order of the benchmarks, or nothing. Each one needs a store with
// its records.
std::string WrongOrder(const std::vector<std::string>& benchmarks) {
  const BenchTraits* fill = nullptr;
  for (const std::string& name : benchmarks) {
    const BenchTraits* const traits = FindBenchmark(name);
    if (traits->is_fill) fill = traits;
    if (traits->is_ycsb && (fill == nullptr || !fill->is_ycsb)) {
      return "--benchmarks: " + name + " needs the records of ycsbload before it";
    }
    if (fill == nullptr) {
      return "--benchmarks: " + name + " needs a fill before it: fillseq, for example";
    }
  }
  return {};
}

// Turns flags into a configuration. Returns what is wrong with them, or nothing.
std::string Settle(CompareFlags* flags) {
  CompareConfig& config = flags->config;
  if (flags->smoke) {
    flags->gib = 1.0 / 128;
    flags->floor_gib = 1.0 / 64;
    config.round_count = 1;
    config.opening_count = 2;
    config.phase_seconds = 20;
    config.thread_count = 4;
    config.benchmarks = {"fillseq", "readrandom"};
  }
  const auto is_size = [](double gib) { return std::isfinite(gib) && gib >= 0 && gib <= 65536; };
  if (!is_size(flags->gib) || !is_size(flags->memory_gib) || !is_size(flags->budget_gib) ||
      !is_size(flags->floor_gib)) {
    return "sizes are numbers of GiB from 0 to 65536";
  }
  config.record_count = static_cast<uint64_t>(flags->gib * kGiB /
                                              static_cast<double>(RecordBytes(config.value_bytes)));
  if (config.record_count < config.thread_count) {
    return "--gib " + std::to_string(flags->gib) + " is less than a record for each thread";
  }
  if (!(config.phase_seconds > 0) || config.phase_seconds > 1e6) {
    return "--phase_seconds is not above 0, or above a million";
  }
  if (!(config.fill_seconds <= 1e6)) return "--fill_seconds is above a million";
  config.memory_cap_bytes = static_cast<uint64_t>(flags->memory_gib * kGiB);
  constexpr uint64_t kLeastCapBytes = uint64_t{64} << 20;
  if (config.memory_cap_bytes > 0 && config.memory_cap_bytes < kLeastCapBytes) {
    return "--memory_gib is below 64 MiB";
  }
  const double budget_gib = flags->budget_gib > 0   ? flags->budget_gib
                            : flags->memory_gib > 0 ? flags->memory_gib * 0.75
                                                    : 1.5;
  config.memory_budget_bytes = static_cast<uint64_t>(budget_gib * kGiB);
  if (config.memory_budget_bytes < kMinMemoryBudgetBytes) {
    return "--budget_gib is below " + std::to_string(kMinMemoryBudgetBytes) + " bytes";
  }
  const bool wants_fio = !flags->no_fio && FioRunner::Available();
  config.floor_bytes = wants_fio ? static_cast<uint64_t>(flags->floor_gib * kGiB) : 0;
  if (flags->only == "benchmarks" && config.benchmarks.empty()) {
    return "--only benchmarks needs --benchmarks";
  }
  config.has_contest = flags->only != "benchmarks";
  if (flags->only == "contest") config.benchmarks.clear();
  return WrongOrder(config.benchmarks);
}

// Orders to phases' processes are JSON, whose texts are UTF-8.
bool IsUtf8(const std::string& text) {
  const nlohmann::json json = text;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) ==
         json.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
}

int Compare(CompareFlags flags) {
  // A reader that ends early, as `head` does, makes a print fail. The comparison ends in order
  // then.
  std::signal(SIGPIPE, SIG_IGN);
  CompareConfig& config = flags.config;
  const std::string wrong = Settle(&flags);
  if (!wrong.empty()) return Refuse(kProgram, wrong);
  if (!IsUtf8(std::filesystem::absolute(flags.dir.empty() ? "." : flags.dir).string())) {
    return Refuse(kProgram, "the path of --dir is not UTF-8");
  }
  if (!CanSave(flags.json_path)) return Refuse(kProgram, "cannot write " + flags.json_path);
  WorkDir dir;
  const Status prepared = dir.Prepare(flags.dir);
  if (!prepared.ok()) return Refuse(kProgram, prepared.message());
  config.dir = dir.path();
  const std::string space_error = WhyNoRoom({{config.dir, NeededBytes(config)}});
  if (!space_error.empty()) return Refuse(kProgram, space_error);
  if (flags.check_only) return 0;
  for (const std::string& name : MissingPeers()) {
    std::fprintf(stderr, "left out %s: its library was missing when this program was built\n",
                 name.c_str());
  }
  CatchInterrupts();
  Comparison comparison(config);
  for (const std::string& path : flags.merges) comparison.Merge(path);
  comparison.Run();
  return EndBench(kProgram, comparison.ToTable(), comparison.errors(), comparison.ToJson(),
                  flags.json_path);
}

int Main(int argc, char** argv) {
  const ChildWorks works = {{kCompareWork, RunCompareWork}};
  if (const auto code = ChildMain(argc, argv, works)) return *code;
  CompareFlags flags;
  CLI::App app("Runs the engine and its peers side by side.");
  AddFlags(&flags, &app);
  if (const auto code = ParseCommandLine("compare", argc, argv, &app)) return *code;
  return Compare(std::move(flags));
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }

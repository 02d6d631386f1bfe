// bin/crash: kills the engine with SIGKILL at random moments and verifies the store each time.
//
// Exit codes: 1 says that an invariant did not hold, 2 that the trial itself could not run.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <system_error>

#include <unistd.h>

#include "harness/crash/trial.h"
#include "harness/measure/table.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"

namespace engine_race::crash {
namespace {

struct Flags {
  TrialConfig config;
  std::string json_path;
  bool made_dir = false;
};

void AddFlags(CLI::App& app, Flags* flags) {
  TrialConfig& config = flags->config;
  config.cycle_count = 300;
  config.thread_count = 32;
  config.max_key_count = 32768;
  config.min_kill_ms = 5;
  config.max_kill_ms = 250;
  config.max_store_bytes = uint64_t{1} << 30;
  config.seed = (uint64_t{std::random_device()()} << 32) | std::random_device()();

  app.add_option("--cycles", config.cycle_count, "how many times to kill and verify");
  static const std::map<std::string, KeyChoice> kKeyChoices = {
      {"uniform", KeyChoice::kUniform}, {"skewed", KeyChoice::kSkewed}, {"both", KeyChoice::kBoth}};
  app.add_option_function<std::string>(
         "--keys", [&config](const std::string& keys) { config.keys = kKeyChoices.at(keys); },
         "uniform, skewed (hot keys, most in one bucket) or both")
      ->check(harness::OneOf("choice", {"uniform", "skewed", "both"}));
  app.add_option("--key-space", config.max_key_count, "keys of a store, at the most")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", config.thread_count, "writing threads, at the most")
      ->check(CLI::Range(1, 1024));
  app.add_option("--dir", config.dir, "where stores are made; a temporary directory by default");
  app.add_option("--seed", config.seed, "of all draws")->default_str("random");
  app.add_option("--min-ms", config.min_kill_ms, "a writer is killed so early, at the least");
  app.add_option("--max-ms", config.max_kill_ms, "a writer is killed so late, at the most");
  app.add_option("--max-store-bytes", config.max_store_bytes,
                 "bytes of values after which the writers of a store rest");
  app.add_option("--value-size", config.value_bytes,
                 "bytes of a value, 0 for one that each store draws")
      ->check(CLI::Range(kLeastValueBytes, kMaxValueBytes) | CLI::IsMember({0}));
  app.add_option("--json", flags->json_path, "write the summary to this file, too");
  app.add_flag_callback(
      "--tiny", [&config] { config.geometry = GeometryChoice::kTiny; },
      "only stores with few buckets and groups of 4 to 16 KiB");
  app.add_flag_callback(
      "--paged", [&config] { config.index = IndexChoice::kPaged; },
      "every index is larger than its memory");
}

void PrepareDir(Flags* flags) {
  if (!flags->config.dir.empty()) {
    std::filesystem::create_directories(flags->config.dir);
    return;
  }
  std::string pattern =
      (std::filesystem::temp_directory_path() / "engine_race_crash.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
  }
  flags->config.dir = pattern;
  flags->made_dir = true;
}

nlohmann::json KillsByPhase(const std::array<uint32_t, kPhaseCount>& counts) {
  nlohmann::json kills = nlohmann::json::object();
  for (size_t i = 0; i < kPhaseCount; ++i) {
    if (counts[i] > 0) kills[PhaseName(static_cast<Phase>(i))] = counts[i];
  }
  return kills;
}

nlohmann::json ToJson(const TrialConfig& config, const TrialSummary& summary, double seconds) {
  return {{"seed", config.seed},
          {"cycles", summary.cycle_count},
          {"stores", summary.store_count},
          {"writer_kills", KillsByPhase(summary.writer_kill_counts)},
          {"recovery_kills", KillsByPhase(summary.recovery_kill_counts)},
          {"killed_root_writers", summary.killed_root_writer_count},
          {"clean_exits", summary.clean_exit_count},
          {"second_openers_refused", summary.second_opener_count},
          {"acknowledged_writes", summary.acknowledged_count},
          {"records_checked", summary.checked_count},
          {"violations", summary.violation_count},
          {"broken_store", summary.broken_dir},
          {"seconds", seconds}};
}

void PrintSummary(const nlohmann::json& summary) {
  std::printf("\n%-24s %s\n", "cycles", summary["cycles"].dump().c_str());
  for (const char* name :
       {"stores", "writer_kills", "recovery_kills", "killed_root_writers", "clean_exits",
        "second_openers_refused", "acknowledged_writes", "records_checked", "violations"}) {
    std::printf("%-24s %s\n", name, summary[name].dump().c_str());
  }
  std::printf("%-24s %.1f\n", "seconds", summary["seconds"].get<double>());
}

int Run(Flags* flags) {
  PrepareDir(flags);
  const TrialConfig& config = flags->config;
  std::printf("seed %llu, stores in %s\n", static_cast<unsigned long long>(config.seed),
              config.dir.c_str());
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  CrashTrial trial(config);
  const bool live = ::isatty(STDOUT_FILENO) != 0;
  for (uint32_t cycle = 0; cycle < config.cycle_count; ++cycle) {
    if (!trial.RunCycle(cycle)) break;
    if (live) {
      std::printf("\rcycle %u of %u ", cycle + 1, config.cycle_count);
      std::fflush(stdout);
    }
  }
  trial.Finish();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const nlohmann::json summary = ToJson(config, trial.summary(), elapsed.count());
  PrintSummary(summary);
  if (!harness::SaveJson(summary, flags->json_path)) {
    throw std::runtime_error("cannot write " + flags->json_path);
  }
  const bool clean = trial.summary().violation_count == 0;
  if (clean && flags->made_dir) std::filesystem::remove_all(config.dir);
  return clean ? harness::kExitDone : harness::kExitFailure;
}

int Main(int argc, char** argv) {
  CLI::App app("Kills the engine with SIGKILL at random moments and checks every record after it");
  Flags flags;
  AddFlags(app, &flags);
  if (const auto code = harness::ParseCommandLine("crash", argc, argv, &app)) return *code;
  if (flags.config.min_kill_ms > flags.config.max_kill_ms) {
    std::fprintf(stderr, "crash: --min-ms is above --max-ms\n");
    return harness::kExitRefused;
  }
  try {
    return Run(&flags);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "crash: %s\n", e.what());
    return harness::kExitRefused;
  }
}

}  // namespace
}  // namespace engine_race::crash

int main(int argc, char** argv) { return engine_race::crash::Main(argc, argv); }

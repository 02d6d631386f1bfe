// Measures the claims about space and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "harness/claims/bench_end.h"
#include "harness/claims/bench_space.h"
#include "harness/measure/result_file.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/disk.h"
#include "harness/system/tmpfs_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_space";

struct SpaceFlags {
  SpaceConfig config;
  std::string parent = ".";
  std::string json_path;
  std::vector<std::string> only;
};

void AddFlags(SpaceFlags* flags, CLI::App* app) {
  SpaceConfig& config = flags->config;
  const auto add = [app](const char* name, auto* value, const char* what) {
    app->add_option(name, *value, what)->check(AboveZero())->capture_default_str();
  };
  const auto add_size = [app](const char* name, uint64_t* bytes, const char* what) {
    app->add_option(name, *bytes, what)
        ->transform(CLI::AsSizeValue(false))
        ->check(AboveZero())
        ->capture_default_str();
  };
  app->add_option("--dir", flags->parent, "works in a fresh directory in here")
      ->capture_default_str();
  app->add_option("--json", flags->json_path, "where the figures go; by default nowhere");
  app->add_option("--only", flags->only, "measurements to make; by default all of them")
      ->delimiter(',')
      ->check(OneOf("measurement", SpaceMeasurementNames()));
  add_size("--data", &config.data_bytes, "values of a data set, as in 8GB");
  add("--passes", &config.pass_count, "how often a data set is overwritten");
  add("--threads", &config.thread_count, "that write");
  add("--rounds", &config.round_count, "of turns that are compared");
  add("--seconds", &config.seconds, "of a turn");
  add("--ramp_seconds", &config.ramp_seconds, "before those of a turn, not measured");
  add("--precondition_passes", &config.precondition_pass_count,
      "of overwriting before the turns, for a steady state");
  add_size("--memory", &config.memory_budget_bytes, "of each store");
  add("--read_rate", &config.read_rate, "reads a second of read_p99_under_reclaim");
  add("--write_rate", &config.write_rate, "writes a second beside these reads");
  app->add_option("--memory_dir", config.memory_dir, "a file system in memory")
      ->capture_default_str();
  add_size("--cost_data", &config.cost_bytes, "values of a store of no_overwrite_cost");
  add("--cost_rounds", &config.cost_round_count, "of no_overwrite_cost");
  app->add_option("--seed", config.seed)->capture_default_str();
}

void Shrink(SpaceConfig* config) {
  config->data_bytes = uint64_t{8} << 20;
  config->pass_count = 2;
  config->thread_count = 4;
  config->round_count = 1;
  config->seconds = 0.1;
  config->ramp_seconds = 0.05;
  config->precondition_pass_count = 1;
  config->sample_seconds = 0.02;
  config->memory_budget_bytes = uint64_t{64} << 20;
  config->read_rate = 200;
  config->read_thread_count = 2;
  config->write_rate = 500;
  config->cost_bytes = uint64_t{2} << 20;
  config->cost_round_count = 1;
}

int Bench(SpaceFlags flags) {
  SpaceConfig& config = flags.config;
  config.only.insert(flags.only.begin(), flags.only.end());
  const uint64_t needed_bytes = SpaceNeeded(config);
  std::fprintf(stderr, "%s: at most %.1f GB of disk are needed, %.1f GB are free in %s\n", kProgram,
               static_cast<double>(needed_bytes) * 1e-9,
               static_cast<double>(FreeBytes(flags.parent)) * 1e-9, flags.parent.c_str());
  const std::string no_room = WhyNoRoom(flags.parent, needed_bytes);
  if (!no_room.empty()) return RefuseBench(kProgram, no_room);
  const TmpfsDir dir(flags.parent, 0);
  if (dir.path().empty()) return RefuseBench(kProgram, "cannot work in " + flags.parent);
  config.dir = dir.path();
  CatchInterrupts();
  BenchSpace bench(config);
  bench.Run([&] { SaveJson(bench.ToJson(), flags.json_path); });
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), flags.json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::SpaceFlags flags;
  bool smoke = false;
  CLI::App app("Measures what overwritten stores take and write, and what reclaim costs.");
  harness::AddFlags(&flags, &app);
  app.add_flag("--smoke", smoke, "everything once, tiny: no figure means much");
  if (const auto code = harness::ParseCommandLine("bench_space", argc, argv, &app)) return *code;
  if (smoke) harness::Shrink(&flags.config);
  return harness::Bench(flags);
}

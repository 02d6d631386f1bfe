// Measures the claims about the race and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/claims/bench_end.h"
#include "harness/claims/bench_race.h"
#include "harness/load/store_basics.h"
#include "harness/measure/result_file.h"
#include "harness/race/process.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/tmpfs_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_race";

struct BenchFlags {
  BenchConfig config;
  std::string dir;
  std::string tmpfs = "/dev/shm";
  std::string json_path;
  std::vector<std::string> only;
};

void AddFlags(BenchFlags* flags, CLI::App* app) {
  app->add_option("--dir", flags->dir, "directory to work in; by default a fresh one here");
  app->add_option("--json", flags->json_path, "where the figures go; by default nowhere");
  app->add_option("--threads", flags->config.race.thread_count)
      ->check(AboveZero())
      ->capture_default_str();
  app->add_option("--num", flags->config.race.records_per_thread, "records per thread")
      ->capture_default_str();
  app->add_option("--rounds", flags->config.round_count)->check(AboveZero())->capture_default_str();
  app->add_option("--index-keys", flags->config.index_key_count)->capture_default_str();
  RaceCpuConfig& cpu = flags->config.cpu;
  app->add_option("--tmpfs", flags->tmpfs, "a tmpfs, for the CPU time of writes")
      ->capture_default_str();
  app->add_option("--cpu-rounds", cpu.round_count, "of the comparisons of CPU time")
      ->capture_default_str();
  app->add_option("--tmpfs-num", cpu.write_record_count, "records written on tmpfs")
      ->capture_default_str();
  app->add_option("--seed", flags->config.race.seed)->capture_default_str();
  app->add_option("--only", flags->only, "claims to measure; by default all of them")
      ->delimiter(',')
      ->check(OneOf("claim", RaceClaimNames()));
  app->add_flag("--smoke", flags->config.is_smoke, "everything once, tiny: no figure means much");
}

void Shrink(BenchConfig* config) {
  config->race.thread_count = 4;
  config->race.records_per_thread = 100;
  config->round_count = 1;
  config->index_key_count = 100000;
  config->cpu.round_count = 1;
  config->cpu.write_record_count = config->cpu.read_record_count = 4000;
  config->cpu.read_seconds = 0.02;
}

int Bench(BenchFlags flags) {
  BenchConfig& config = flags.config;
  if (config.is_smoke) Shrink(&config);
  if (flags.only.empty()) flags.only = RaceClaimNames();
  config.wanted.insert(flags.only.begin(), flags.only.end());
  RaceDir dir;
  const std::string problem = PrepareRace(flags.dir, &dir, &config.race);
  if (!problem.empty()) return RefuseBench(kProgram, problem);
  const TmpfsDir tmpfs(flags.tmpfs, StoreBytes(config.cpu.write_record_count));
  config.cpu.tmpfs_dir = tmpfs.path();
  CatchInterrupts();
  BenchRace bench(config, &dir);
  bench.Run([&] { SaveJson(bench.ToJson(), flags.json_path); });
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), flags.json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  if (const auto code = harness::PhaseMain(argc, argv)) return *code;
  harness::BenchFlags flags;
  CLI::App app("Measures the claims about the race: engine and device in turn, in short rounds.");
  harness::AddFlags(&flags, &app);
  if (const auto code = harness::ParseCommandLine("bench_race", argc, argv, &app)) return *code;
  return harness::Bench(flags);
}

// Measures the claims about scans and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/claims/bench_end.h"
#include "harness/claims/bench_race.h"
#include "harness/claims/bench_scan.h"
#include "harness/measure/result_file.h"
#include "harness/opponents/rocks_ranges.h"
#include "harness/race/process.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/tmpfs_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_scan";

struct ScanFlags {
  ScanBenchConfig config;
  std::string dir;
  std::string tmpfs = "/dev/shm";
  std::string json_path;
  std::vector<std::string> only;
};

void AddFlags(ScanFlags* flags, CLI::App* app) {
  ScanBenchConfig& config = flags->config;
  app->add_option("--dir", flags->dir, "directory to work in; by default a fresh one here");
  app->add_option("--tmpfs", flags->tmpfs, "a tmpfs")->capture_default_str();
  app->add_option("--json", flags->json_path, "where the figures go; by default nowhere");
  app->add_option("--keys", config.key_count, "of the short ranges")->capture_default_str();
  app->add_option("--rounds", config.round_count)->check(AboveZero())->capture_default_str();
  app->add_option("--seconds", config.seconds, "of each timed run")
      ->check(AboveZero())
      ->capture_default_str();
  app->add_option("--snapshots", config.snapshot_count, "in a round")->capture_default_str();
  app->add_option("--written-num", config.written_record_count, "records of a store under writers")
      ->capture_default_str();
  app->add_option("--visited-num", config.visited_record_count, "records visited on tmpfs")
      ->capture_default_str();
  app->add_option("--threads", config.thread_count, "that range")
      ->check(AboveZero())
      ->capture_default_str();
  app->add_option("--num", config.race.records_per_thread, "records per thread on the disk")
      ->capture_default_str();
  app->add_option("--race-rounds", config.race_round_count, "on the disk")->capture_default_str();
  app->add_option("--seed", config.seed)->capture_default_str();
  app->add_option("--only", flags->only, "claims to measure; by default all of them")
      ->delimiter(',')
      ->check(OneOf("claim", ScanClaimNames()));
  app->add_flag("--smoke", config.is_smoke, "everything once, tiny: no figure means much");
}

void Shrink(ScanBenchConfig* config) {
  config->key_count = 100000;
  config->round_count = config->race_round_count = 1;
  config->seconds = 0.02;
  config->snapshot_count = 20000;
  config->written_record_count = config->visited_record_count = 4000;
  config->checked_record_count = config->gap.record_count = 4000;
  config->gap.seconds = config->gap.warm_up_seconds = 0.02;
  config->thread_count = config->race.thread_count = 4;
  config->race.records_per_thread = 100;
}

int Bench(ScanFlags flags) {
  ScanBenchConfig& config = flags.config;
  if (config.is_smoke) Shrink(&config);
  config.make_rocks = RocksMaker();
  if (flags.only.empty()) flags.only = ScanClaimNames();
  config.wanted.insert(flags.only.begin(), flags.only.end());
  RaceDir dir;
  config.race.seed = config.seed;
  const std::string problem = PrepareRace(flags.dir, &dir, &config.race);
  if (!problem.empty()) return RefuseBench(kProgram, problem);
  const TmpfsDir tmpfs(flags.tmpfs, ScanTmpfsBytes(config));
  config.tmpfs_dir = tmpfs.path();
  CatchInterrupts();
  BenchScan bench(config, &dir);
  bench.Run([&] { SaveJson(bench.ToJson(), flags.json_path); });
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), flags.json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  // The ranges on the disk run in child processes.
  if (const auto code = harness::PhaseMain(argc, argv)) return *code;
  harness::ScanFlags flags;
  CLI::App app("Measures iterators, snapshots and ranges beside RocksDB, the device and writers.");
  harness::AddFlags(&flags, &app);
  if (const auto code = harness::ParseCommandLine("bench_scan", argc, argv, &app)) return *code;
  return harness::Bench(flags);
}

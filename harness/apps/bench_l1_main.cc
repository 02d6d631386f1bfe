// Measures the claims about lookups in memory and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/parallel.h"
#include "harness/claims/bench_end.h"
#include "harness/claims/bench_l1.h"
#include "harness/measure/result_file.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/machine.h"
#include "harness/system/tmpfs_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_l1";

struct L1Flags {
  L1BenchConfig config;
  std::string parent = ".";
  std::string tmpfs = "/dev/shm";
  std::string json_path;
  std::vector<std::string> only;
};

void AddFlags(L1Flags* flags, CLI::App* app) {
  L1BenchConfig& config = flags->config;
  app->add_option("--dir", flags->parent, "works in a fresh directory in here")
      ->capture_default_str();
  app->add_option("--tmpfs", flags->tmpfs, "a tmpfs")->capture_default_str();
  app->add_option("--json", flags->json_path, "where the figures go; by default nowhere");
  app->add_option("--records", config.record_count, "in all tables")->capture_default_str();
  app->add_option("--tables", config.table_count)
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_option("--key-bytes", config.shape.key_bytes)
      ->check(CLI::IsMember({8, 16, 32}))
      ->capture_default_str();
  app->add_option("--payload-bytes", config.shape.payload_bytes)
      ->check(CLI::Range(harness::kMinPayloadBytes, harness::kMaxPayloadBytes))
      ->capture_default_str();
  app->add_option("--threads", config.thread_count, "of the cumulative claims")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_option("--rounds", config.rounds.round_count)->check(AboveZero())->capture_default_str();
  app->add_option("--seconds", config.rounds.seconds, "of each run")
      ->check(AboveZero())
      ->capture_default_str();
  app->add_option("--seed", config.rounds.seed)->capture_default_str();
  app->add_option("--only", flags->only, "claims to measure; by default all of them")
      ->delimiter(',')
      ->check(OneOf("claim", L1ClaimNames()));
  app->add_flag("--smoke", config.is_smoke, "everything once, tiny: no figure means much");
}

void Shrink(L1BenchConfig* config) {
  config->record_count = 20000;
  config->rounds.round_count = 1;
  config->rounds.seconds = config->rounds.warming_seconds = 0.002;
  config->lookup_count = 4096;
  L1EngineShape& engine = config->engine;
  engine.memory_budget_bytes = engine_race::kMinMemoryBudgetBytes;
  engine.record_count = 16384;
  engine.uniform_record_count = 65536;
  engine.hot_record_count = 2000;
  engine.thread_count = 4;
  engine.keys_per_call = 100;
  engine.warming_read_count = 20000;
  engine.probe_read_count = 10000;
  engine.seconds = 0.02;
}

int Bench(L1Flags flags) {
  L1BenchConfig& config = flags.config;
  if (config.is_smoke) Shrink(&config);
  config.make_rocks = RocksPointsMaker();
  if (flags.only.empty()) flags.only = L1ClaimNames();
  config.wanted.insert(flags.only.begin(), flags.only.end());
  if (config.record_count < config.table_count) {
    return RefuseBench(kProgram, "fewer --records than --tables");
  }
  const uint64_t needed_bytes = L1BenchMemoryBytes(config);
  if (needed_bytes > FreeMemoryBytes()) {
    return RefuseBench(kProgram, std::to_string(needed_bytes) + " bytes of memory needed, " +
                                     std::to_string(FreeMemoryBytes()) + " free");
  }
  const std::string no_room = WhyNoRoom(flags.parent, L1BenchDiskBytes(config));
  if (!no_room.empty()) return RefuseBench(kProgram, no_room);
  const TmpfsDir dir(flags.parent, 0);
  if (dir.path().empty()) return RefuseBench(kProgram, "cannot work in " + flags.parent);
  config.dir = dir.path();
  const TmpfsDir tmpfs(flags.tmpfs, L1BenchTmpfsBytes(config));
  config.tmpfs_dir = tmpfs.path();
  CatchInterrupts();
  BenchL1 bench(config);
  bench.Run([&] { SaveJson(bench.ToJson(), flags.json_path); });
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), flags.json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::L1Flags flags;
  flags.config.thread_count = engine_race::AvailableCpuCount();
  CLI::App app("Measures lookups in tables in memory, step by step and beside RocksDB.");
  harness::AddFlags(&flags, &app);
  if (const auto code = harness::ParseCommandLine("bench_l1", argc, argv, &app)) return *code;
  return harness::Bench(flags);
}

// Measures the claims about the index and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "harness/claims/bench_end.h"
#include "harness/claims/bench_index.h"
#include "harness/claims/index_child.h"
#include "harness/measure/result_file.h"
#include "harness/race/process.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/tmpfs_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_index";

struct IndexFlags {
  IndexBenchConfig config;
  std::string parent = ".";
  std::string json_path;
  std::vector<std::string> only;
};

void AddFlags(IndexFlags* flags, CLI::App* app) {
  IndexBenchConfig& config = flags->config;
  const auto add_count = [app](const char* name, auto* count, const char* what) {
    app->add_option(name, *count, what)->check(AboveZero())->capture_default_str();
  };
  app->add_option("--dir", flags->parent, "works in a fresh directory in here")
      ->capture_default_str();
  app->add_option("--json", flags->json_path, "where the figures go; by default nowhere");
  app->add_option("--only", flags->only, "claims to measure; by default all of them")
      ->delimiter(',')
      ->check(OneOf("claim", IndexClaimNames()));
  add_count("--keys", &config.key_count, "of reopening, lookups and builds");
  add_count("--small-keys", &config.small_key_count, "of reopen_growth");
  add_count("--large-keys", &config.large_key_count, "of reopen_growth");
  add_count("--billion-keys", &config.billion_key_count, "of the claims about a billion keys");
  add_count("--killed-writes", &config.killed_write_count, "before the writer is killed");
  add_count("--stalled-keys", &config.stalled_key_count, "of writer_stall_ratio");
  add_count("--stall-writes", &config.stall_write_count, "of each run of writer_stall_ratio");
  add_count("--amplified-keys", &config.amplified_key_count, "of index_write_amplification");
  add_count("--amplified-writes", &config.amplified_write_count, "of index_write_amplification");
  add_count("--paged-records", &config.paged_record_count,
            "with values; reduced to what the disk has room for");
  add_count("--rocks-records", &config.rocks_record_count, "of paged_vs_rocksdb, with values");
  add_count("--race-records", &config.race_records_per_thread, "of each thread of a race");
  add_count("--buckets", &config.bucket_count, "of the stores that are filled without values");
  app->add_option("--threads", config.thread_count, "that build; 0: one per available CPU")
      ->capture_default_str();
  add_count("--rounds", &config.round_count, "of each comparison");
  add_count("--seconds", &config.seconds, "of each timed run");
  app->add_option("--seed", config.seed)->capture_default_str();
  app->add_flag("--smoke", config.is_smoke, "everything once, tiny: no figure means much");
}

void Shrink(IndexBenchConfig* config) {
  config->bucket_count = 64;
  config->round_count = 1;
  config->seconds = 0.05;
  config->key_count = 100000;
  config->small_key_count = 20000;
  config->large_key_count = 100000;
  config->billion_key_count = 200000;
  config->stalled_key_count = 20000;
  config->amplified_key_count = 50000;
  config->killed_write_count = 1000;
  config->stall_write_count = 2000;
  config->amplified_write_count = 4000;
  config->lookup_count = 20000;
  config->billion_lookup_count = 2000;
  config->paged_record_count = 8000;
  config->rocks_record_count = 8000;
  config->race_records_per_thread = 50;
  config->memory_budget_bytes = engine_race::kMinMemoryBudgetBytes;
  config->device_read_bytes = uint64_t{4} << 20;
  config->reader_count = 8;
  config->keys_per_call = 100;
}

int Bench(IndexFlags flags) {
  IndexBenchConfig& config = flags.config;
  if (config.is_smoke) Shrink(&config);
  config.make_rocks = RocksRecordsMaker();
  if (flags.only.empty()) flags.only = IndexClaimNames();
  config.wanted.insert(flags.only.begin(), flags.only.end());
  const TmpfsDir dir(flags.parent, 0);
  if (dir.path().empty()) return RefuseBench(kProgram, "cannot work in " + flags.parent);
  config.dir = dir.path();
  CatchInterrupts();
  BenchIndex bench(config);
  bench.Run([&] { SaveJson(bench.ToJson(), flags.json_path); });
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), flags.json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  if (const auto code = harness::IndexChildMain(argc, argv)) return *code;
  if (const auto code = harness::PhaseMain(argc, argv)) return *code;
  harness::IndexFlags flags;
  CLI::App app(
      "Measures the index: on disk and in memory, beside the device, the standard library and "
      "RocksDB.");
  harness::AddFlags(&flags, &app);
  if (const auto code = harness::ParseCommandLine("bench_index", argc, argv, &app)) return *code;
  return harness::Bench(flags);
}

// Measures the claims about batches and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/claims/batch_gain.h"
#include "harness/claims/bench_end.h"
#include "harness/load/store_basics.h"
#include "harness/measure/claim_rounds.h"
#include "harness/system/command_line.h"
#include "harness/system/machine.h"
#include "harness/system/work_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_batches";
constexpr ClaimTarget kTargets[] = {{kBatchGain, ">= 1.05"}, {kBatchDurableGain, ">= 10"}};

int Bench(BatchGainConfig config, const std::string& dir_path, const std::string& memory_path,
          const std::string& json_path) {
  WorkDir disk;
  WorkDir memory;
  std::string error;
  if (!disk.Prepare(dir_path, &error)) return RefuseBench(kProgram, error);
  if (!memory.Prepare(memory_path, &error)) return RefuseBench(kProgram, error);
  config.disk_dir = disk.path();
  config.memory_dir = memory.path();
  for (const auto& [dir, records] : {std::pair(config.disk_dir, config.durable_batch_records),
                                     std::pair(config.memory_dir, config.memory_records)}) {
    const std::string no_room = WhyNoRoom(dir, StoreBytes(records) + (uint64_t{1} << 30));
    if (!no_room.empty()) return RefuseBench(kProgram, no_room);
  }
  ClaimRounds rounds(kTargets);
  std::vector<std::string> errors;
  const std::string failure = MeasureBatchGain(config, &rounds);
  if (!failure.empty()) errors.push_back(failure);
  nlohmann::json json = rounds.ToJson();
  json["config"] = {{"batch_records", config.batch_records},
                    {"memory_records", config.memory_records},
                    {"durable_writes", config.durable_writes},
                    {"durable_batch_records", config.durable_batch_records},
                    {"rounds", config.round_count},
                    {"durable_rounds", config.durable_round_count}};
  json["machine"] = DescribeMachine(config.disk_dir);
  json["errors"] = errors;
  return EndBench(kProgram, rounds.ToTable(), errors, json, json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::BatchGainConfig config;
  std::string dir;
  std::string memory_dir = "/dev/shm/engine_race_batches";
  std::string json_path;
  bool smoke = false;
  CLI::App app("Measures what batches gain over single writes.");
  app.add_option("--dir", dir, "directory on a disk to work in; by default a fresh one here");
  app.add_option("--memory-dir", memory_dir, "directory on tmpfs")->capture_default_str();
  app.add_option("--json", json_path, "where the figures go; by default nowhere");
  app.add_option("--batch", config.batch_records, "records of a batch")->capture_default_str();
  app.add_option("--num", config.memory_records, "records on tmpfs")->capture_default_str();
  app.add_option("--rounds", config.round_count)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--durable-rounds", config.durable_round_count)->capture_default_str();
  app.add_option("--seed", config.seed)->capture_default_str();
  app.add_flag("--smoke", smoke, "everything once, tiny: no figure means much");
  if (const auto code = harness::ParseCommandLine("bench_batches", argc, argv, &app)) return *code;
  if (smoke) {
    config.memory_records = 2000;
    config.durable_writes = 50;
    config.durable_batch_records = 512;
    config.round_count = 1;
    config.durable_round_count = 1;
  }
  return harness::Bench(config, dir, memory_dir, json_path);
}

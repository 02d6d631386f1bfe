// Measures the claims about NUMA nodes and writes them down with the figures they were taken from.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "harness/claims/bench_end.h"
#include "harness/claims/bench_numa.h"
#include "harness/load/store_basics.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/tmpfs_dir.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr char kProgram[] = "bench_numa";

int Bench(NumaBenchConfig config, const std::string& parent, const std::string& json_path,
          const std::string& guests_path) {
  const uint64_t record_count = config.thread_count * config.records_per_thread;
  const TmpfsDir dir(parent, StoreBytes(record_count) + (uint64_t{256} << 20));
  if (dir.path().empty()) return RefuseBench(kProgram, "no room in " + parent);
  config.dir = dir.path();
  // All from memory, so that no side reads its program from the disk again after the page cache was
  // dropped.
  config.programs = dir.path() + "/programs";
  const fs::path built = fs::path(SelfPath()).parent_path();
  std::error_code failed;
  fs::create_directory(config.programs, failed);
  for (const char* program : {"race", "race_static", "numa"}) {
    if (!failed) fs::copy_file(built / program, config.programs + "/" + program, failed);
    if (failed) return RefuseBench(kProgram, std::string(program) + ": " + failed.message());
  }
  CatchInterrupts();
  BenchNuma bench(config);
  if (!guests_path.empty()) bench.AddGuests(guests_path);
  bench.CompareLauncher();
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::NumaBenchConfig config;
  std::string parent = "/dev/shm";
  std::string json_path;
  std::string guests_path;
  bool smoke = false;
  CLI::App app("Measures what the launcher of NUMA instances costs where there is one node.");
  app.add_option("--dir", parent, "a file system in memory to work in")->capture_default_str();
  app.add_option("--json", json_path, "where the figures go; by default nowhere");
  app.add_option("--guests", guests_path, "what scripts/numa_guest.py has found");
  app.add_option("--threads", config.thread_count)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--num", config.records_per_thread, "records per thread")->capture_default_str();
  app.add_option("--rounds", config.round_count)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--seed", config.seed)->capture_default_str();
  app.add_flag("--smoke", smoke, "everything once, tiny: no figure means much");
  if (const auto code = harness::ParseCommandLine("bench_numa", argc, argv, &app)) return *code;
  if (smoke) {
    config.thread_count = 4;
    config.records_per_thread = 200;
    config.round_count = 1;
  }
  return harness::Bench(config, parent, json_path, guests_path);
}

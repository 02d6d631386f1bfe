// Measures what a read through the C API costs over one in C++.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "harness/claims/bench_c_api.h"
#include "harness/claims/bench_end.h"
#include "harness/load/store_basics.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/tmpfs_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_c_api";

int Bench(CApiBenchConfig config, const std::string& parent, const std::string& json_path) {
  const TmpfsDir dir(parent, StoreBytes(config.record_count));
  if (dir.path().empty()) return RefuseBench(kProgram, "no room in " + parent);
  config.dir = dir.path();
  CatchInterrupts();
  BenchCApi bench(config);
  bench.Fill();
  bench.CompareReads();
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::CApiBenchConfig config;
  std::string parent = "/dev/shm";
  std::string json_path;
  bool smoke = false;
  CLI::App app("Measures what a read through the C API costs over one in C++.");
  app.add_option("--dir", parent, "a file system in memory to work in")->capture_default_str();
  app.add_option("--json", json_path, "where the figures go; by default nowhere");
  app.add_option("--num", config.record_count, "records")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--reads", config.read_count, "of each side in each round")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--rounds", config.round_count)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--seed", config.seed)->capture_default_str();
  app.add_flag("--smoke", smoke, "everything once, tiny: no figure means much");
  if (const auto code = harness::ParseCommandLine("bench_c_api", argc, argv, &app)) return *code;
  if (smoke) {
    config.record_count = 500;
    config.read_count = 1000;
    config.round_count = 1;
  }
  return harness::Bench(config, parent, json_path);
}

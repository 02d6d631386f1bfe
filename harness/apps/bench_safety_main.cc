// Measures the claims about safety and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "harness/claims/bench_end.h"
#include "harness/claims/bench_safety.h"
#include "harness/load/store_basics.h"
#include "harness/system/command_line.h"
#include "harness/system/work_dir.h"

// The linker replaces the engine's calls of HashValue by calls of this function, only in this
// program. NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" uint64_t __real__ZN11engine_race9HashValueEPKv(const void* value);
extern "C" uint64_t __wrap__ZN11engine_race9HashValueEPKv(const void* value) {
  if (harness::leave_out_checksums.load(std::memory_order_relaxed)) return 0;
  return __real__ZN11engine_race9HashValueEPKv(value);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace harness {
namespace {

constexpr char kProgram[] = "bench_safety";

int Bench(SafetyConfig config, const std::string& dir_path, const std::string& json_path,
          const std::string& mutants_path) {
  WorkDir dir;
  std::string error;
  if (!dir.Prepare(dir_path, &error)) return RefuseBench(kProgram, error);
  config.dir = dir.path();
  // Space for the store, its journal and the file of the bare loops.
  const std::string no_room =
      WhyNoRoom(dir.path(), StoreBytes(config.record_count) + (uint64_t{1} << 30));
  if (!no_room.empty()) return RefuseBench(kProgram, no_room);
  BenchSafety bench(config);
  bench.Run();
  if (!mutants_path.empty()) bench.AddMutants(mutants_path);
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::SafetyConfig config;
  std::string dir;
  std::string json_path;
  std::string mutants_path;
  bool smoke = false;
  CLI::App app("Measures what verification, checksums and durable writes cost.");
  app.add_option("--dir", dir, "directory to work in; by default a fresh one here");
  app.add_option("--json", json_path, "where the figures go; by default nowhere");
  app.add_option("--mutants", mutants_path, "what scripts/mutants.py has found");
  app.add_option("--threads", config.thread_count)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--num", config.record_count, "records of a store")->capture_default_str();
  app.add_option("--rounds", config.round_count)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--seconds", config.seconds, "of each timed run")
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--seed", config.seed)->capture_default_str();
  app.add_option("--parts", config.parts, "of durable,write,close,read,range; by default all")
      ->delimiter(',')
      ->check(harness::OneOf("part", {"durable", "write", "close", "read", "range"}));
  app.add_flag("--smoke", smoke, "everything once, tiny: no figure means much");
  if (const auto code = harness::ParseCommandLine("bench_safety", argc, argv, &app)) return *code;
  if (smoke) {
    config.thread_count = 4;
    config.record_count = 2000;
    config.round_count = 1;
    config.seconds = 0.05;
  }
  return harness::Bench(config, dir, json_path, mutants_path);
}

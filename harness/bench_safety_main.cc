// Measures the claims about safety and writes them down with the figures they were taken from.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>

#include "harness/bench_safety.h"
#include "harness/json_file.h"
#include "harness/race_dir.h"

// The linker sends the engine's calls of HashValue here, in this program alone.
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" uint64_t __real__ZN11engine_race9HashValueEPKv(const void* value);
extern "C" uint64_t __wrap__ZN11engine_race9HashValueEPKv(const void* value) {
  if (harness::leave_out_checksums.load(std::memory_order_relaxed)) return 0;
  return __real__ZN11engine_race9HashValueEPKv(value);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace harness {
namespace {

int Refuse(const std::string& why) {
  std::fprintf(stderr, "bench_safety: %s\n", why.c_str());
  return 2;
}

int Bench(SafetyConfig config, const std::string& dir_path, const std::string& json_path,
          const std::string& mutants_path) {
  RaceDir dir;
  std::string error;
  if (!dir.Prepare(dir_path, &error)) return Refuse(error);
  config.dir = dir.path();
  // The store, its journal and the file of the bare loops.
  const uint64_t needed_bytes = StoreBytes(config.record_count) + (uint64_t{1} << 30);
  if (needed_bytes > FreeBytes(dir.path())) {
    return Refuse(std::to_string(needed_bytes) + " bytes of disk needed, " +
                  std::to_string(FreeBytes(dir.path())) + " free in " + dir.path());
  }
  BenchSafety bench(config);
  bench.Run();
  if (!mutants_path.empty()) bench.AddMutants(mutants_path);
  std::printf("%s", bench.ToTable().c_str());
  for (const std::string& what : bench.errors()) std::printf("FAILED: %s\n", what.c_str());
  if (!SaveJson(bench.ToJson(), json_path)) return Refuse("cannot write " + json_path);
  return bench.errors().empty() ? 0 : 1;
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
  app.add_option("--threads", config.thread_count)->capture_default_str();
  app.add_option("--num", config.record_count, "records of a store")->capture_default_str();
  app.add_option("--rounds", config.round_count)->capture_default_str();
  app.add_option("--seconds", config.seconds, "of each timed run")->capture_default_str();
  app.add_option("--seed", config.seed)->capture_default_str();
  app.add_option("--parts", config.parts, "of durable,write,close,read,range; by default all")
      ->delimiter(',')
      ->check(CLI::IsMember({"durable", "write", "close", "read", "range"}));
  app.add_flag("--smoke", smoke, "everything once, tiny: no figure means much");
  CLI11_PARSE(app, argc, argv);
  if (smoke) {
    config.thread_count = 4;
    config.record_count = 2000;
    config.round_count = 1;
    config.seconds = 0.05;
  }
  return harness::Bench(config, dir, json_path, mutants_path);
}

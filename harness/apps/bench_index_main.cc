// Measures the claims about the index and saves them with the figures behind them.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "harness/claims/bench_end.h"
#include "harness/claims/bench_index.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_index";

struct IndexBenchFlags {
  IndexBenchConfig config;
  std::string json_path;
  std::string open_child;
  uint64_t open_key = 0;
};

int Bench(IndexBenchFlags flags) {
  IndexBenchConfig& config = flags.config;
  if (config.is_smoke) {
    config.key_count = 100000;
    config.bucket_count = 64;
    config.round_count = 1;
  }
  const bool own_dir = config.dir.empty();
  if (own_dir) {
    config.dir = "bench-index.XXXXXX";
    if (mkdtemp(config.dir.data()) == nullptr) {
      return RefuseBench(kProgram, "cannot make a directory here");
    }
  }
  CatchInterrupts();
  int code = 0;
  {
    IndexBench bench(config);
    std::vector<std::string> errors;
    if (!bench.Run()) errors.push_back(bench.error());
    code = EndBench(kProgram, bench.ToTable(), errors, bench.ToJson(), flags.json_path);
  }
  std::error_code ignored;
  if (own_dir) std::filesystem::remove_all(config.dir, ignored);
  return code;
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::IndexBenchFlags flags;
  CLI::App app(
      "Measures the index beside the standard library, and how long a store takes to open.");
  app.add_option("--dir", flags.config.dir, "directory to work in; by default a fresh one here");
  app.add_option("--keys", flags.config.key_count)->capture_default_str();
  app.add_option("--buckets", flags.config.bucket_count)->capture_default_str();
  app.add_option("--threads", flags.config.thread_count, "0: one per available CPU");
  app.add_option("--rounds", flags.config.round_count)
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", flags.config.seed)->capture_default_str();
  app.add_option("--json", flags.json_path, "where the figures go; by default nowhere");
  app.add_flag("--smoke", flags.config.is_smoke, "everything once, tiny: no figure means much");
  // Used only by the program's own child process.
  app.add_option("--open-child", flags.open_child)->group("");
  app.add_option("--open-key", flags.open_key)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!flags.open_child.empty()) return harness::OpenChildMain(flags.open_child, flags.open_key);
  return harness::Bench(flags);
}

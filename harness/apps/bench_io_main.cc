// Measures the claims about I/O and saves them with the figures behind them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "harness/claims/bench_end.h"
#include "harness/claims/bench_io.h"
#include "harness/load/store_basics.h"
#include "harness/system/command_line.h"
#include "harness/system/tmpfs_dir.h"
#include "harness/system/work_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "bench_io";

int Bench(IoBenchConfig config, const std::string& dir_path, const std::string& tmpfs_path,
          const std::string& json_path) {
  WorkDir dir;
  std::string error;
  if (!dir.Prepare(dir_path, &error)) return RefuseBench(kProgram, error);
  config.dir = dir.path();
  const TmpfsDir tmpfs(tmpfs_path, 3 * StoreBytes(config.tmpfs_record_count));
  config.tmpfs_dir = tmpfs.path();
  const std::string no_room =
      WhyNoRoom(dir.path(), StoreBytes(config.record_count) + (uint64_t{1} << 30));
  if (!no_room.empty()) return RefuseBench(kProgram, no_room);
  BenchIo bench(config);
  bench.Run();
  return EndBench(kProgram, bench.ToTable(), bench.errors(), bench.ToJson(), json_path);
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::IoBenchConfig config;
  std::string dir;
  std::string tmpfs = "/dev/shm";
  std::string json_path;
  CLI::App app("Measures many reads in flight, back ends and striping beside the device.");
  app.add_option("--dir", dir, "directory to work in; by default a fresh one here");
  app.add_option("--tmpfs", tmpfs, "a tmpfs")->capture_default_str();
  app.add_option("--json", json_path, "where the figures go; by default nowhere");
  app.add_option("--num", config.record_count, "records of a store")->capture_default_str();
  app.add_option("--tmpfs-num", config.tmpfs_record_count, "the same on tmpfs")
      ->capture_default_str();
  app.add_option("--rounds", config.round_count, "of each part, at least")
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--max-rounds", config.max_round_count, "more of them while they scatter")
      ->capture_default_str();
  app.add_option("--seconds", config.seconds, "of each timed run")
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--callers", config.caller_count, "threads of MultiRead")->capture_default_str();
  app.add_option("--workers", config.worker_count, "that they share")->capture_default_str();
  app.add_option("--threads", config.thread_count, "of everything else")
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--parts", config.parts, "of multiread,uring,tmpfs,stripe; by default all")
      ->delimiter(',')
      ->check(harness::OneOf("part", {"multiread", "uring", "tmpfs", "stripe"}));
  app.add_flag("--smoke", config.is_smoke, "everything once, tiny: no figure means much");
  if (const auto code = harness::ParseCommandLine("bench_io", argc, argv, &app)) return *code;
  if (config.is_smoke) {
    config.record_count = config.tmpfs_record_count = 3000;
    config.thread_count = 4;
    config.round_count = 1;
    config.seconds = 0.05;
  }
  return harness::Bench(config, dir, tmpfs, json_path);
}

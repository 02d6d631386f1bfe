// The costs of a benchmark's run, its figures as text, JSON and CSV, and the device's rates for it.
//
// The JSON's shape is that of docs/bench.md, for single stores and for comparisons. Pure functions,
// but for CostMeter, which is not thread-safe, and MeasureFloor.
#ifndef HARNESS_BENCH_REPORT_H_
#define HARNESS_BENCH_REPORT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/bench/benchmark.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

struct RunCosts {
  // Of all devices that the store lies on, see DeviceIo.
  std::optional<DeviceBytes> device;
  uint64_t rss_peak_bytes = 0;
  // Nothing where it is not known.
  std::optional<double> write_amplification;
  std::optional<double> space_amplification;
};

// Measures what happens between two calls.
class CostMeter {
 public:
  // The store's directory and its value paths.
  explicit CostMeter(const std::vector<std::string>& dirs);

  void Start();
  // `written_bytes` are keys and values given to the store; 0: there is no write amplification.
  RunCosts Stop(uint64_t written_bytes) const;

 private:
  // Of all devices together. Nothing when one of them has no counts.
  std::optional<DeviceBytes> Read() const;

  // Each device once; empty where a directory has no counts.
  std::vector<DeviceIo> devices_;
  std::optional<DeviceBytes> before_;
};

// db_bench's line: "fillrandom   :      12.345 micros/op 81004 ops/sec 12.345 seconds 1000000
// operations;  317.2 MB/s", where an MB is 2^20 bytes.
std::string BenchLine(const BenchResult& result);
// "fillrandom   : skipped (--use_existing_db is true)"
std::string SkippedLine(const std::string& benchmark);
// db_bench's block of percentiles in microseconds for each kind of call, without its lines of
// buckets.
std::string PercentileText(const BenchResult& result);

// The commit that this program was built from: 40 hexadecimal digits, with "-dirty" behind them
// when files had changed since. "unknown" for a build outside of a repository.
std::string GitHash();
// {"cpu", "kernel", ..., "git_hash", "device", "device_bytes_from", "memory_limit_bytes"}
nlohmann::json MachineJson(const std::string& dir);
// An element of "runs".
nlohmann::json RunJson(const std::string& store, uint32_t round, const BenchResult& result,
                       const RunCosts& costs);
// "summary" of these "runs": an element for each store and phase, in the order of the first runs.
nlohmann::json SummaryJson(const nlohmann::json& runs);
// The runs as lines of CSV below a line of names.
std::string RunsCsv(const nlohmann::json& runs);

// The rates of the device below a store, measured with fio, for the report of a run. With them
// figures of two machines can be compared.

// *floor becomes {"random_read_ops_per_s", "sequential_read_bytes_per_s",
// "sequential_write_bytes_per_s"}. Takes as long as about nine passes over `bytes`, and needs
// `bytes` of space in `dir`. kNotSupported without fio, kIOError when it fails.
Status MeasureFloor(const std::string& dir, uint64_t bytes, nlohmann::json* floor);

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_REPORT_H_

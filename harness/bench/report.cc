#include "harness/bench/report.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "engine_race/base/memory_limit.h"
#include "engine_race/base/text_file.h"
#include "harness/measure/median.h"
#include "harness/measure/progress.h"
#include "harness/system/fio_runner.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

template <typename... Args>
std::string Text(const char* format, Args... args) {
  char text[512];
  std::snprintf(text, sizeof(text), format, args...);
  return text;
}

double Micros(uint64_t ns) { return static_cast<double>(ns) * 1e-3; }

// The least value of a step of a histogram.
uint64_t BottomOf(size_t step) { return step == 0 ? 0 : LatencyHistogram::TopOf(step - 1) + 1; }

// The shortest latency, to within its step. 0 when nothing was recorded.
uint64_t LeastNs(const LatencyHistogram& latency) {
  for (size_t step = 0; step < LatencyHistogram::kStepCount; ++step) {
    if (latency.CountAt(step) > 0) return BottomOf(step);
  }
  return 0;
}

// The standard deviation, with each latency in the middle of its step.
double DeviationNs(const LatencyHistogram& latency) {
  if (latency.count() < 2) return 0;
  double squares = 0;
  for (size_t step = 0; step < LatencyHistogram::kStepCount; ++step) {
    const auto count = static_cast<double>(latency.CountAt(step));
    if (count == 0) continue;
    const uint64_t top = std::min(LatencyHistogram::TopOf(step), latency.max_ns());
    const double middle = 0.5 * static_cast<double>(BottomOf(step) + top);
    squares += count * std::pow(middle - latency.mean_ns(), 2);
  }
  return std::sqrt(squares / static_cast<double>(latency.count()));
}

nlohmann::json LatencyJson(const LatencyHistogram& latency) {
  return {{"count", latency.count()},
          {"mean", latency.mean_ns()},
          {"stddev", DeviationNs(latency)},
          {"min", LeastNs(latency)},
          {"p50", latency.PercentileNs(0.5)},
          {"p75", latency.PercentileNs(0.75)},
          {"p90", latency.PercentileNs(0.9)},
          {"p95", latency.PercentileNs(0.95)},
          {"p99", latency.PercentileNs(0.99)},
          {"p999", latency.PercentileNs(0.999)},
          {"p9999", latency.PercentileNs(0.9999)},
          {"max", latency.max_ns()}};
}

template <typename Value>
nlohmann::json OrNull(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// Null and what is missing are empty; texts have neither commas nor quotation marks.
std::string CsvCell(const nlohmann::json& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

CostMeter::CostMeter(const std::vector<std::string>& dirs) {
  for (const std::string& dir : dirs) {
    DeviceIo device(dir);
    const bool known = std::any_of(devices_.begin(), devices_.end(), [&](const DeviceIo& other) {
      return other.source() == device.source();
    });
    if (!known) devices_.push_back(std::move(device));
  }
  const bool one_has_none =
      std::any_of(devices_.begin(), devices_.end(),
                  [](const DeviceIo& device) { return device.device().empty(); });
  const bool one_in_memory = std::any_of(dirs.begin(), dirs.end(), [](const std::string& dir) {
    // A device's name may lie in a tmpfs, as those of /dev do where there is no devtmpfs.
    std::error_code error;
    return !std::filesystem::is_block_file(dir, error) && FileSystemName(dir).starts_with("tmpfs");
  });
  // The process's own counts would count bytes of the other devices again, and nothing of tmpfs.
  if ((one_has_none && devices_.size() > 1) || one_in_memory) devices_.clear();
}

std::optional<DeviceBytes> CostMeter::Read() const {
  if (devices_.empty()) return std::nullopt;
  DeviceBytes sum;
  for (const DeviceIo& device : devices_) {
    const std::optional<DeviceBytes> bytes = device.Read();
    if (!bytes) return std::nullopt;
    sum.read += bytes->read;
    sum.written += bytes->written;
  }
  return sum;
}

void CostMeter::Start() {
  // A kernel that refuses leaves the peak of the whole process.
  static_cast<void>(ResetPeakRss());
  before_ = Read();
}

RunCosts CostMeter::Stop(uint64_t written_bytes) const {
  RunCosts costs;
  costs.rss_peak_bytes = PeakRssBytes();
  const std::optional<DeviceBytes> after = Read();
  if (!before_ || !after) return costs;
  costs.device = *after - *before_;
  // The process's counts lack what the kernel writes for it.
  if (written_bytes > 0 && !devices_.front().device().empty()) {
    costs.write_amplification =
        static_cast<double>(costs.device->written) / static_cast<double>(written_bytes);
  }
  return costs;
}

std::string BenchLine(const BenchResult& result) {
  const double operations = static_cast<double>(std::max<uint64_t>(result.operations, 1));
  std::string line =
      Text("%-12s : %11.3f micros/op %.0f ops/sec %.3f seconds %" PRIu64 " operations;",
           result.benchmark.c_str(), result.thread_seconds * 1e6 / operations,
           result.OperationsPerSecond(), result.seconds, result.operations);
  if (result.bytes > 0 && result.seconds > 0) {
    line += Text(" %6.1f MB/s", static_cast<double>(result.bytes) * 0x1p-20 / result.seconds);
  }
  if (result.lookup_count > 0) {
    line += Text(" (%" PRIu64 " of %" PRIu64 " found)", result.found_count, result.lookup_count);
  }
  if (!result.finished) line += " (not finished)";
  return line + "\n";
}

std::string SkippedLine(const std::string& benchmark) {
  return Text("%-12s : skipped (--use_existing_db is true)\n", benchmark.c_str());
}

std::string PercentileText(const BenchResult& result) {
  std::string text;
  for (size_t i = 0; i < kOperationKindCount; ++i) {
    const LatencyHistogram& latency = result.latencies[i];
    if (latency.count() == 0) continue;
    text +=
        "Microseconds per " + std::string(OperationKindName(static_cast<OperationKind>(i))) + ":\n";
    text += Text("Count: %" PRIu64 " Average: %.4f  StdDev: %.2f\n", latency.count(),
                 latency.mean_ns() * 1e-3, DeviationNs(latency) * 1e-3);
    text += Text("Min: %.0f  Median: %.4f  Max: %.0f\n", Micros(LeastNs(latency)),
                 Micros(latency.PercentileNs(0.5)), std::ceil(Micros(latency.max_ns())));
    text += Text("Percentiles: P50: %.2f P75: %.2f P99: %.2f P99.9: %.2f P99.99: %.2f\n",
                 Micros(latency.PercentileNs(0.5)), Micros(latency.PercentileNs(0.75)),
                 Micros(latency.PercentileNs(0.99)), Micros(latency.PercentileNs(0.999)),
                 Micros(latency.PercentileNs(0.9999)));
    text += "------------------------------------------------------\n\n";
  }
  return text;
}

nlohmann::json MachineJson(const std::string& dir) {
  const DeviceIo device(dir);
  nlohmann::json machine = DescribeMachine(dir);
  machine["git_hash"] = GitHash();
  machine["device"] = device.device().empty() ? nlohmann::json() : nlohmann::json(device.device());
  machine["device_bytes_from"] = device.source();
  const uint64_t limit_bytes = MemoryLimitFrom(ReadTextFile);
  machine["memory_limit_bytes"] =
      limit_bytes == kNoMemoryLimit ? nlohmann::json() : nlohmann::json(limit_bytes);
  return machine;
}

nlohmann::json RunJson(const std::string& store, uint32_t round, const BenchResult& result,
                       const RunCosts& costs) {
  nlohmann::json run = {{"store", store},
                        {"phase", result.benchmark},
                        {"round", round},
                        {"threads", result.thread_count},
                        {"operations", result.operations},
                        {"bytes", result.bytes},
                        {"lookup_count", nullptr},
                        {"found_count", nullptr},
                        {"seconds", result.seconds},
                        {"operations_per_s", result.OperationsPerSecond()},
                        {"finished", result.finished},
                        {"cpu_user_s", result.cpu.user_seconds},
                        {"cpu_system_s", result.cpu.system_seconds},
                        {"rss_peak_bytes", costs.rss_peak_bytes},
                        {"device_read_bytes", nullptr},
                        {"device_written_bytes", nullptr},
                        {"write_amplification", OrNull(costs.write_amplification)},
                        {"space_amplification", OrNull(costs.space_amplification)}};
  if (costs.device) {
    run["device_read_bytes"] = costs.device->read;
    run["device_written_bytes"] = costs.device->written;
  }
  if (result.lookup_count > 0) {
    run["lookup_count"] = result.lookup_count;
    run["found_count"] = result.found_count;
  }
  const LatencyHistogram latency = result.Latency();
  if (latency.count() > 0) run["latency_ns"] = LatencyJson(latency);
  for (size_t i = 0; i < kOperationKindCount; ++i) {
    if (result.latencies[i].count() == 0) continue;
    const std::string kind(OperationKindName(static_cast<OperationKind>(i)));
    run["latency_by_kind_ns"][kind] = LatencyJson(result.latencies[i]);
  }
  run["timeline"] = nlohmann::json::array();
  for (const BenchSecond& second : result.timeline) {
    run["timeline"].push_back({{"s", second.seconds}, {"operations", second.operations}});
  }
  return run;
}

nlohmann::json SummaryJson(const nlohmann::json& runs) {
  nlohmann::json summary = nlohmann::json::array();
  for (const nlohmann::json& first : runs) {
    const auto is_same = [&](const nlohmann::json& other) {
      return other["store"] == first["store"] && other["phase"] == first["phase"];
    };
    if (std::any_of(summary.begin(), summary.end(), is_same)) continue;
    std::vector<double> rates;
    bool finished = true;
    for (const nlohmann::json& run : runs) {
      if (!is_same(run)) continue;
      rates.push_back(run["operations_per_s"]);
      finished = finished && run["finished"].get<bool>();
    }
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    summary.push_back(
        {{"store", first["store"]},
         {"phase", first["phase"]},
         {"operations_per_s", {{"median", MedianOf(rates)}, {"min", *least}, {"max", *most}}},
         {"finished", finished}});
  }
  return summary;
}

std::string RunsCsv(const nlohmann::json& runs) {
  const std::string names =
      "store,phase,round,threads,operations,bytes,seconds,operations_per_s,finished,cpu_user_s,"
      "cpu_system_s,rss_peak_bytes,device_read_bytes,device_written_bytes,write_amplification,"
      "space_amplification,lookup_count,found_count";
  constexpr std::array kLatencies = {"mean",  "p50", "p90", "p99", "p999",
                                     "p9999", "max", "p75", "p95"};
  std::string csv = names;
  for (const char* const name : kLatencies) csv.append(",").append(name).append("_ns");
  csv += '\n';
  for (const nlohmann::json& run : runs) {
    const nlohmann::json latency = run.value("latency_ns", nlohmann::json::object());
    std::string line;
    std::istringstream columns(names);
    for (std::string column; std::getline(columns, column, ',');) {
      line.append(line.empty() ? "" : ",").append(CsvCell(run[column]));
    }
    for (const char* const name : kLatencies) {
      line.append(",").append(CsvCell(latency.value(name, nlohmann::json())));
    }
    csv += line + "\n";
  }
  return csv;
}

Status MeasureFloor(const std::string& dir, uint64_t bytes, nlohmann::json* floor) {
  if (!FioRunner::Available()) return Status::NotSupported("there is no fio");
  constexpr uint64_t kReadBytes = 4096;
  const StatusLine line("measuring the device ...");
  FioRunner fio(dir);
  const FioResult write = fio.BestWrite(bytes);
  const FioResult read = fio.RandomRead(bytes, kReadBytes, bytes / kReadBytes);
  const FioResult scan = fio.BestScan(bytes);
  for (const FioResult* const result : {&write, &read, &scan}) {
    if (!result->ok) return Status::IOError("fio: " + result->error);
  }
  *floor = {{"random_read_ops_per_s", read.ops_per_second},
            {"sequential_read_bytes_per_s", scan.bytes_per_second},
            {"sequential_write_bytes_per_s", write.bytes_per_second}};
  return Status::Ok();
}

}  // namespace engine_race::harness

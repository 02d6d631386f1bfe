#include "harness/race/runner.h"

#include <nlohmann/json.hpp>

#include "harness/data/value_maker.h"
#include "harness/measure/progress.h"
#include "harness/measure/table.h"
#include "harness/race/json.h"
#include "harness/system/child_process.h"
#include "harness/system/own_child.h"
#include "harness/system/own_text.h"
#include "harness/system/page_cache.h"

namespace engine_race::harness {
namespace {

PhaseResult RunInChild(Phase phase, const RaceConfig& config) {
  nlohmann::json answer;
  const Status status = RunOwnChild(kPhaseWork, OrderOf({phase, config}), &answer);
  PhaseResult result;
  if (answer.contains("seconds")) answer.get_to(result);
  if (!status.ok() && result.error.empty()) result.error = status.message();
  return result;
}

FioResult MeasureDevice(Phase phase, uint64_t bytes, FioRunner* fio) {
  // No job of fio does what a mixed phase does.
  if (fio == nullptr || phase == Phase::kMixed) {
    FioResult none;
    none.error = "not measured";
    return none;
  }
  const StatusLine line(std::string("the device, for ") + PhaseName(phase) + " ...");
  switch (phase) {
    case Phase::kWrite:
      return fio->BestWrite(bytes);
    case Phase::kRead:
    case Phase::kMixed:
      return fio->RandomRead(bytes);
    case Phase::kRange:
      return fio->BestScan(bytes);
  }
  return {};
}

// One line of the table: of a phase, or of a pass of the range.
std::vector<std::string> Row(const PhaseReport& report, const std::string& name, double seconds,
                             double rate) {
  const PhaseResult& result = report.result;
  const auto latency = [&](uint64_t ns) {
    return report.phase == Phase::kRange ? "-" : Duration(static_cast<double>(ns));
  };
  return {name,
          Fixed(seconds, 2),
          Fixed(rate / kValueSize, 0),
          Fixed(rate * 1e-6, 1),
          latency(result.p50_ns),
          latency(result.p99_ns),
          latency(result.p999_ns),
          Fixed(static_cast<double>(result.peak_rss_bytes) * 0x1p-20, 0),
          Fixed(result.cpu_seconds, 2),
          report.has_device() ? Fixed(report.DeviceBytesPerSecond() * 1e-6, 1) : "-",
          report.has_device() ? Fixed(report.FractionOf(rate), 3) : "-"};
}

std::vector<std::string> PassRow(const PhaseReport& report, uint32_t pass) {
  constexpr size_t kMemoryColumn = 7;
  const PhaseResult& result = report.result;
  std::vector<std::string> row = Row(report, "range, pass " + std::to_string(pass + 1),
                                     result.pass_seconds[pass], result.PassBytesPerSecond(pass));
  // Memory and CPU time are of the whole phase.
  if (pass > 0) row[kMemoryColumn] = row[kMemoryColumn + 1] = "";
  return row;
}

}  // namespace

double PhaseReport::DeviceBytesPerSecond() const {
  return has_device() ? (before.bytes_per_second + after.bytes_per_second) / 2 : 0;
}

double PhaseReport::FractionOf(double bytes_per_second) const {
  return has_device() ? bytes_per_second / DeviceBytesPerSecond() : 0;
}

Status RunPhaseWork(const nlohmann::json& json, nlohmann::json* answer) {
  const auto order = json.get<PhaseOrder>();
  if (order.config.moves_text) ENGINE_RACE_RETURN_IF_ERROR(MoveTextToOwnMemory());
  *answer = RunPhase(order.phase, order.config);
  return Status::Ok();
}

PhaseReport MeasurePhase(Phase phase, const RaceConfig& config, FioRunner* fio) {
  const uint64_t bytes = config.record_count() * kValueSize;
  PhaseReport report;
  report.phase = phase;
  report.before = MeasureDevice(phase, bytes, fio);
  if (Interrupted()) {
    report.result.error = "interrupted";
    return report;
  }
  // Other instances keep their page cache.
  const bool is_alone = config.gate.out < 0;
  const auto drop = [&] { return is_alone ? DropPageCache(config.dir) : DropFilesOf(config.dir); };
  report.cache_drop = drop();
  if (!PassGate(config.gate, std::string("start ") + PhaseName(phase))) {
    report.result.error = "the other instances have stopped";
    return report;
  }
  report.result = RunInChild(phase, config);
  // The next run of fio must not pay for dirty pages of the phase.
  drop();
  if (Interrupted()) return report;
  report.after = MeasureDevice(phase, bytes, report.result.ok ? fio : nullptr);
  return report;
}

std::string ReportTable(const std::vector<PhaseReport>& reports) {
  Table table({"phase", "seconds", "ops/s", "MB/s", "P50", "P99", "P99.9", "peak RSS MiB", "CPU s",
               "device MB/s", "of device"});
  for (const PhaseReport& report : reports) {
    if (!report.result.ok) {
      table.AddRow(
          {PhaseName(report.phase), "failed", "-", "-", "-", "-", "-", "-", "-", "-", "-"});
    } else if (report.phase != Phase::kRange) {
      table.AddRow(Row(report, PhaseName(report.phase), report.result.seconds,
                       report.result.BytesPerSecond()));
    } else {
      for (uint32_t pass = 0; pass < kRangePasses; ++pass) table.AddRow(PassRow(report, pass));
    }
  }
  return table.ToString();
}

}  // namespace engine_race::harness

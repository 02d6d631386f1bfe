#include "harness/race/runner.h"

#include "harness/data/value_maker.h"
#include "harness/measure/progress.h"
#include "harness/measure/table.h"
#include "harness/race/process.h"
#include "harness/system/child_process.h"
#include "harness/system/page_cache.h"

namespace harness {
namespace {

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

std::string FractionText(const PhaseReport& report, double bytes_per_second) {
  return report.has_device() ? Fixed(report.FractionOf(bytes_per_second), 3) : "-";
}

std::string DeviceText(const PhaseReport& report) {
  return report.has_device() ? Fixed(report.DeviceBytesPerSecond() * 1e-6, 1) : "-";
}

std::vector<std::string> PointRow(const PhaseReport& report) {
  const PhaseResult& result = report.result;
  const double rate = result.BytesPerSecond();
  return {PhaseName(report.phase),
          Fixed(result.seconds, 2),
          Fixed(rate / kValueSize, 0),
          Fixed(rate * 1e-6, 1),
          Duration(static_cast<double>(result.p50_ns)),
          Duration(static_cast<double>(result.p99_ns)),
          Duration(static_cast<double>(result.p999_ns)),
          Fixed(static_cast<double>(result.peak_rss_bytes) * 0x1p-20, 0),
          Fixed(result.cpu_seconds, 2),
          DeviceText(report),
          FractionText(report, rate)};
}

std::vector<std::string> PassRow(const PhaseReport& report, uint32_t pass) {
  const PhaseResult& result = report.result;
  const double rate = result.PassBytesPerSecond(pass);
  // Memory and CPU time are of the whole phase.
  const bool is_first = pass == 0;
  return {"range, pass " + std::to_string(pass + 1),
          Fixed(result.pass_seconds[pass], 2),
          Fixed(rate / kValueSize, 0),
          Fixed(rate * 1e-6, 1),
          "-",
          "-",
          "-",
          is_first ? Fixed(static_cast<double>(result.peak_rss_bytes) * 0x1p-20, 0) : "",
          is_first ? Fixed(result.cpu_seconds, 2) : "",
          DeviceText(report),
          FractionText(report, rate)};
}

}  // namespace

double PhaseReport::DeviceBytesPerSecond() const {
  return has_device() ? (before.bytes_per_second + after.bytes_per_second) / 2 : 0;
}

double PhaseReport::FractionOf(double bytes_per_second) const {
  return has_device() ? bytes_per_second / DeviceBytesPerSecond() : 0;
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
  report.result = RunPhaseProcess(phase, config);
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
      table.AddRow(PointRow(report));
    } else {
      for (uint32_t pass = 0; pass < kRangePasses; ++pass) table.AddRow(PassRow(report, pass));
    }
  }
  return table.ToString();
}

}  // namespace harness

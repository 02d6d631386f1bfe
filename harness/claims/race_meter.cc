#include "harness/claims/race_meter.h"

#include <cstdio>
#include <utility>

#include "engine_race/base/round_up.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {

namespace {

// "2104.1 MB/s, device 2409.8 MB/s"
std::string Summary(const PhaseReport& report) {
  const PhaseResult& result = report.result;
  if (!result.ok) return "failed: " + result.error;
  std::string text;
  if (report.phase == Phase::kRange) {
    text = Fixed(result.PassBytesPerSecond(0) * 1e-6, 1) + " and " +
           Fixed(result.PassBytesPerSecond(1) * 1e-6, 1) + " MB/s";
  } else {
    text = Fixed(result.BytesPerSecond() * 1e-6, 1) + " MB/s";
  }
  if (!report.has_device()) return text;
  return text + ", device " + Fixed(report.DeviceBytesPerSecond() * 1e-6, 1) + " MB/s";
}

}  // namespace

Status RaceMeter::Prepare(const std::string& dir) { return dir_.Prepare(dir); }

Status RaceMeter::StartStore(RaceConfig* config) {
  config->dir = dir_.path();
  return dir_.StartStore(*config);
}

Status RaceMeter::BesideDevice(RaceConfig config, const std::set<std::string>& wanted,
                               const std::string& suffix) {
  const bool has_fio = FioRunner::Available();
  if (!has_fio && !is_smoke_) return Status::IOError("fio is missing");
  ENGINE_RACE_RETURN_IF_ERROR(StartStore(&config));
  FioRunner runner(config.dir);
  FioRunner* const fio = has_fio ? &runner : nullptr;
  const bool total = wanted.contains(kTotalVsDevice);
  std::vector<PhaseReport> phases;
  const auto note = [&](const char* claim, double bytes_per_second) {
    if (!wanted.contains(claim)) return Status::Ok();
    return NoteFraction(claim + suffix, phases.back(), bytes_per_second);
  };
  const auto measure = [&](Phase phase, FioRunner* beside) {
    return Measure(phase, config, beside, "uniform", &phases.emplace_back());
  };
  const bool writes_compared = total || wanted.contains(kWriteRatio);
  ENGINE_RACE_RETURN_IF_ERROR(measure(Phase::kWrite, writes_compared ? fio : nullptr));
  ENGINE_RACE_RETURN_IF_ERROR(note(kWriteRatio, phases.back().result.BytesPerSecond()));
  if (total || wanted.contains(kReadRatio)) {
    ENGINE_RACE_RETURN_IF_ERROR(measure(Phase::kRead, fio));
    ENGINE_RACE_RETURN_IF_ERROR(note(kReadRatio, phases.back().result.BytesPerSecond()));
  }
  if (total || wanted.contains(kRangeRatio) || wanted.contains(kRangePass2)) {
    ENGINE_RACE_RETURN_IF_ERROR(measure(Phase::kRange, fio));
    const PhaseResult& range = phases.back().result;
    ENGINE_RACE_RETURN_IF_ERROR(note(kRangeRatio, range.PassBytesPerSecond(0)));
    ENGINE_RACE_RETURN_IF_ERROR(note(kRangePass2, range.PassBytesPerSecond(1)));
  }
  if (total) NoteTotal(phases);
  dir_.RemoveStore();
  return Status::Ok();
}

void RaceMeter::NoteTotal(const std::vector<PhaseReport>& phases) {
  double device_s = 0;
  double engine_s = 0;
  for (const PhaseReport& report : phases) {
    // fio may be missing in smoke runs; in other runs that was a failure.
    if (!report.has_device()) return;
    const double passes = report.phase == Phase::kRange ? kRangePasses : 1;
    const auto bytes = static_cast<double>(report.result.record_count * report.result.value_bytes);
    device_s += passes * bytes / report.DeviceBytesPerSecond();
    engine_s += report.result.seconds;
  }
  rounds_->Note("seconds of the three phases", engine_s);
  rounds_->Note("seconds of the three phases at fio's rates", device_s);
  rounds_->Note(kTotalVsDevice, device_s / engine_s);
}

Status RaceMeter::Measure(Phase phase, const RaceConfig& config, FioRunner* fio,
                          const std::string& label, PhaseReport* report) {
  *report = MeasurePhase(phase, config, fio);
  const std::string name = std::string(PhaseName(phase)) + ", " + label;
  const uint32_t round = ++counts_[name];
  nlohmann::json figures = *report;
  figures["round"] = round;
  figures["label"] = label;
  phases_.push_back(std::move(figures));
  std::fprintf(stderr, "round %u, %s: %s\n", round, name.c_str(), Summary(*report).c_str());
  NoteDevice(*report);
  if (Interrupted()) return InterruptedStatus();
  return report->result.ok ? Status::Ok() : Status::IOError(name + ": " + report->result.error);
}

Status RaceMeter::Alone(Phase phase, RaceConfig config, const std::string& label) {
  ENGINE_RACE_RETURN_IF_ERROR(StartStore(&config));
  PhaseReport report;
  ENGINE_RACE_RETURN_IF_ERROR(Measure(Phase::kWrite, config, nullptr, label, &report));
  if (phase == Phase::kRead) {
    ENGINE_RACE_RETURN_IF_ERROR(Measure(phase, config, nullptr, label, &report));
  }
  rounds_->Note(label + ", bytes a second", report.result.BytesPerSecond());
  dir_.RemoveStore();
  return Status::Ok();
}

Status RaceMeter::Whole(RaceConfig config, const std::string& figure) {
  ENGINE_RACE_RETURN_IF_ERROR(StartStore(&config));
  double seconds = 0;
  for (const Phase phase : {Phase::kWrite, Phase::kRead, Phase::kRange}) {
    PhaseReport report;
    ENGINE_RACE_RETURN_IF_ERROR(Measure(phase, config, nullptr, figure, &report));
    seconds += report.result.seconds;
  }
  rounds_->Note(figure, seconds);
  return Status::Ok();
}

void RaceMeter::NoteDevice(const PhaseReport& report) {
  const uint32_t value_bytes = report.result.value_bytes;
  const std::string suffix =
      value_bytes == kValueSize ? "" : ", values of " + std::to_string(value_bytes) + " bytes";
  for (const FioResult* fio : {&report.before, &report.after}) {
    if (!fio->ok) continue;
    if (report.phase == Phase::kRead) {
      const uint64_t block_kib = RoundUp(value_bytes, 4096) / 1024;
      rounds_->Note("device: random " + std::to_string(block_kib) + " KiB reads a second" + suffix,
                    fio->ops_per_second);
    } else {
      const std::string name = report.phase == Phase::kWrite
                                   ? "device: bytes written a second"
                                   : "device: bytes read a second in order";
      rounds_->Note(name + suffix, fio->bytes_per_second);
    }
  }
}

Status RaceMeter::NoteFraction(const std::string& figure, const PhaseReport& report,
                               double bytes_per_second) {
  if (report.has_device()) {
    rounds_->Note(figure, report.FractionOf(bytes_per_second));
  } else if (!is_smoke_) {
    return Status::IOError(figure + ": " + (report.before.ok ? report.after : report.before).error);
  }
  return Status::Ok();
}

}  // namespace engine_race::harness

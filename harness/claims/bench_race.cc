#include "harness/claims/bench_race.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/claims/bench_end.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/table.h"
#include "harness/race/json.h"
#include "harness/system/child_process.h"
#include "harness/system/machine.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSmallGroupBytes = 16 * 1024;
constexpr char kDevicePart[] = "device";
constexpr char kGroupsPart[] = "groups";
constexpr char kSequentialPart[] = "sequential";
constexpr char kOneBucketPart[] = "onebucket";
constexpr char kIndexPart[] = "index";
constexpr char kWriteCpuPart[] = "write cpu";
constexpr char kReadCpuPart[] = "read cpu";
constexpr char kTotalVsDevice[] = "total_vs_device";

constexpr ClaimTarget kTargets[] = {{"write_ratio", ">= 0.92"},
                                    {"read_ratio", ">= 0.95"},
                                    {"range_ratio", ">= 0.92"},
                                    {"range_pass2_ratio", ""},
                                    {kTotalVsDevice, ">= 0.92"},
                                    {kWriteCpuOverBare, "<= 1.35"},
                                    {kReadCpuOverFio, "<= 1.1"},
                                    {"write_vs_16k_groups", ">= 1.8"},
                                    {"rebuild_speedup", ">= 2.7"},
                                    {"lookup_speedup", ">= 4.0"},
                                    {"open_ratio", "<= 3.0"},
                                    {"peak_rss_64m_mib", "<= 1500"},
                                    {"sequential_write_vs_uniform", ">= 0.5"},
                                    {"onebucket_read_vs_uniform", ">= 0.8"}};

// The measurement that gives each claim.
constexpr std::pair<const char*, std::string_view> kPartOfClaim[] = {
    {"write_ratio", kDevicePart},
    {"read_ratio", kDevicePart},
    {"range_ratio", kDevicePart},
    {"range_pass2_ratio", kDevicePart},
    {kTotalVsDevice, kDevicePart},
    {kWriteCpuOverBare, kWriteCpuPart},
    {kReadCpuOverFio, kReadCpuPart},
    {"write_vs_16k_groups", kGroupsPart},
    {"rebuild_speedup", kIndexPart},
    {"lookup_speedup", kIndexPart},
    {"open_ratio", kIndexPart},
    {"peak_rss_64m_mib", kIndexPart},
    {"sequential_write_vs_uniform", kSequentialPart},
    {"onebucket_read_vs_uniform", kOneBucketPart}};
static_assert(std::size(kPartOfClaim) == std::size(kTargets));

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

// Returns the object in the file, else the one that was printed, else null.
nlohmann::json ReadReport(const std::string& path, const std::string& printed) {
  std::ifstream file(path);
  nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
  const size_t start = printed.find('{');
  if (!report.is_object() && start != std::string::npos) {
    report = nlohmann::json::parse(printed.substr(start), nullptr, false);
  }
  return report.is_object() ? report : nlohmann::json();
}

}  // namespace

std::vector<std::string> RaceClaimNames() {
  std::vector<std::string> names;
  for (const ClaimTarget& target : kTargets) names.emplace_back(target.name);
  return names;
}

std::string PrepareRace(const std::string& where, RaceDir* dir, RaceConfig* race) {
  std::string error;
  if (!dir->Prepare(where, &error)) return error;
  if (dir->ReadNote()) dir->RemoveStore();
  race->dir = dir->path();
  return WhyNoRoom(dir->path(), 2 * StoreBytes(race->record_count()));
}

BenchRace::BenchRace(const BenchConfig& config, RaceDir* dir)
    : config_(config), dir_(dir), has_fio_(FioRunner::Available()), rounds_(kTargets) {}

bool BenchRace::Run(const std::function<void()>& after_round) {
  if (!has_fio_ && !config_.is_smoke) Fail("fio is missing");
  for (round_ = 1; round_ <= config_.round_count && !MustStop(); ++round_) {
    RunRound();
    after_round();
  }
  MeasureCpu();
  after_round();
  if (Wants(kIndexPart) && !MustStop()) MeasureIndex();
  if (Interrupted()) Fail("interrupted");
  for (const std::string& name : config_.wanted) {
    if (!config_.is_smoke && !rounds_.has(name)) Fail("not measured: " + name);
  }
  return errors_.empty();
}

void BenchRace::RunRound() {
  if (Wants(kDevicePart)) RaceBesideDevice();
  if (Wants(kGroupsPart) && !MustStop()) CompareGroups();
  if (Wants(kSequentialPart) && !MustStop()) CompareSequentialWrite();
  if (Wants(kOneBucketPart) && !MustStop()) CompareOneBucketRead();
  dir_->RemoveStore();
}

bool BenchRace::Wants(const char* part) const {
  return std::any_of(std::begin(kPartOfClaim), std::end(kPartOfClaim), [&](const auto& entry) {
    return entry.second == part && config_.wanted.contains(entry.first);
  });
}

bool BenchRace::MustStop() const { return !errors_.empty() || Interrupted(); }

void BenchRace::RaceBesideDevice() {
  FioRunner runner(config_.race.dir);
  FioRunner* fio = has_fio_ ? &runner : nullptr;
  std::string error;
  if (!dir_->StartStore(config_.race, &error)) return Fail(error);
  const auto wanted = [this](const char* claim) { return config_.wanted.contains(claim); };
  const bool total = wanted(kTotalVsDevice);
  std::vector<PhaseReport> phases(1);
  const bool writes_compared = total || wanted("write_ratio");
  if (!Measure(Phase::kWrite, config_.race, writes_compared ? fio : nullptr, "uniform",
               &phases.back())) {
    return;
  }
  NoteFraction("write_ratio", phases.back(), phases.back().result.BytesPerSecond());
  if (total || wanted("read_ratio")) {
    if (!Measure(Phase::kRead, config_.race, fio, "uniform", &phases.emplace_back())) return;
    NoteFraction("read_ratio", phases.back(), phases.back().result.BytesPerSecond());
  }
  if (total || wanted("range_ratio") || wanted("range_pass2_ratio")) {
    if (!Measure(Phase::kRange, config_.race, fio, "uniform", &phases.emplace_back())) return;
    const PhaseReport& range = phases.back();
    NoteFraction("range_ratio", range, range.result.PassBytesPerSecond(0));
    NoteFraction("range_pass2_ratio", range, range.result.PassBytesPerSecond(1));
  }
  if (total) NoteTotal(phases);
}

void BenchRace::NoteTotal(const std::vector<PhaseReport>& phases) {
  double device_s = 0;
  double engine_s = 0;
  for (const PhaseReport& report : phases) {
    // fio may be missing in smoke runs; in other runs that failure has been noted already.
    if (!report.has_device()) return;
    const double passes = report.phase == Phase::kRange ? kRangePasses : 1;
    const auto bytes = static_cast<double>(report.result.record_count * kValueSize);
    device_s += passes * bytes / report.DeviceBytesPerSecond();
    engine_s += report.result.seconds;
  }
  rounds_.Note("seconds of the three phases", engine_s);
  rounds_.Note("seconds of the three phases at fio's rates", device_s);
  rounds_.Note(kTotalVsDevice, device_s / engine_s);
}

void BenchRace::MeasureCpu() {
  RaceCpuConfig config = config_.cpu;
  config.dir = config_.race.dir;
  config.thread_count = config_.race.thread_count;
  config.seed = config_.race.seed;
  config.is_smoke = config_.is_smoke;
  const auto compare = [&](const char* part, const char* claim,
                           std::string (RaceCpu::*comparison)()) {
    if (!Wants(part) || MustStop()) return;
    RaceCpu cpu(config, &rounds_);
    const std::string failure = (cpu.*comparison)();
    if (!failure.empty()) Fail(std::string(claim) + ": " + failure);
  };
  compare(kWriteCpuPart, kWriteCpuOverBare, &RaceCpu::CompareWrites);
  compare(kReadCpuPart, kReadCpuOverFio, &RaceCpu::CompareReads);
}

void BenchRace::CompareGroups() {
  RaceConfig small = config_.race;
  small.value_group_bytes = kSmallGroupBytes;
  NotePair(
      "write_vs_16k_groups", [&] { return WriteStore(config_.race, "default groups"); },
      [&] { return WriteStore(small, "16 KiB groups"); });
}

void BenchRace::CompareSequentialWrite() {
  RaceConfig sequential = config_.race;
  sequential.keys = KeyShape::kSequential;
  NotePair(
      "sequential_write_vs_uniform", [&] { return WriteStore(sequential, "sequential"); },
      [&] { return WriteStore(config_.race, "uniform, beside sequential"); });
}

void BenchRace::CompareOneBucketRead() {
  RaceConfig one_bucket = config_.race;
  one_bucket.keys = KeyShape::kOneBucket;
  NotePair(
      "onebucket_read_vs_uniform", [&] { return WriteAndReadStore(one_bucket, "onebucket"); },
      [&] { return WriteAndReadStore(config_.race, "uniform, beside onebucket"); });
}

bool BenchRace::Measure(Phase phase, const RaceConfig& config, FioRunner* fio,
                        const std::string& label, PhaseReport* report) {
  *report = MeasurePhase(phase, config, fio);
  nlohmann::json figures = *report;
  figures["round"] = round_;
  figures["label"] = label;
  raw_.push_back(std::move(figures));
  std::fprintf(stderr, "round %u, %s, %s: %s\n", round_, PhaseName(phase), label.c_str(),
               Summary(*report).c_str());
  if (!report->result.ok) {
    Fail(std::string(PhaseName(phase)) + ", " + label + ": " + report->result.error);
  }
  NoteDevice(*report);
  return report->result.ok;
}

double BenchRace::WriteStore(const RaceConfig& config, const std::string& label) {
  std::string error;
  if (!dir_->StartStore(config, &error)) {
    Fail(error);
    return 0;
  }
  PhaseReport report;
  const bool ok = Measure(Phase::kWrite, config, nullptr, label, &report);
  return ok ? report.result.BytesPerSecond() : 0;
}

double BenchRace::WriteAndReadStore(const RaceConfig& config, const std::string& label) {
  if (WriteStore(config, label) == 0) return 0;
  PhaseReport report;
  const bool ok = Measure(Phase::kRead, config, nullptr, label, &report);
  dir_->RemoveStore();
  return ok ? report.result.BytesPerSecond() : 0;
}

void BenchRace::NotePair(const char* claim, const std::function<double()>& a,
                         const std::function<double()>& b) {
  double rate_a = 0;
  double rate_b = 0;
  const auto noted = [](double* rate, const std::function<double()>& run) {
    *rate = run();
    return *rate > 0;
  };
  if (AlternatingRound(round_ - 1,
                       {[&] { return noted(&rate_a, a); }, [&] { return noted(&rate_b, b); }})) {
    rounds_.Note(claim, rate_a / rate_b);
  }
}

void BenchRace::NoteDevice(const PhaseReport& report) {
  for (const FioResult* fio : {&report.before, &report.after}) {
    if (!fio->ok) continue;
    if (report.phase == Phase::kRead) {
      rounds_.Note("device: random 4 KiB reads a second", fio->ops_per_second);
    } else {
      rounds_.Note(report.phase == Phase::kWrite ? "device: bytes written a second"
                                                 : "device: bytes read a second in order",
                   fio->bytes_per_second);
    }
  }
}

void BenchRace::NoteFraction(const char* claim, const PhaseReport& report,
                             double bytes_per_second) {
  if (!config_.wanted.contains(claim)) return;
  if (report.has_device()) {
    rounds_.Note(claim, report.FractionOf(bytes_per_second));
  } else if (!config_.is_smoke) {
    Fail(std::string(claim) + ": " + (report.before.ok ? report.after : report.before).error);
  }
}

void BenchRace::MeasureIndex() {
  const fs::path program = fs::path(SelfPath()).parent_path() / "bench_index";
  std::string dir = (fs::path(config_.race.dir) / "fio-index.XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) return Fail("cannot make " + dir);
  const std::string report_path = dir + "/report.json";
  std::string claims_to_measure;
  for (const auto& [claim, part] : kPartOfClaim) {
    if (part != kIndexPart || !config_.wanted.contains(claim)) continue;
    claims_to_measure += (claims_to_measure.empty() ? "" : ",") + std::string(claim);
  }
  const ChildResult child = RunChild({program.string(), "--dir", dir, "--only", claims_to_measure,
                                      "--keys", std::to_string(config_.index_key_count), "--rounds",
                                      std::to_string(config_.round_count), "--json", report_path});
  index_ = ReadReport(report_path, child.output);
  std::error_code error;
  fs::remove_all(dir, error);
  if (!child.started || child.exit_code != 0 || !index_.is_object()) {
    return Fail("bench_index failed: " + child.error + ", code " + std::to_string(child.exit_code));
  }
  const nlohmann::json& claims = index_.contains("claims") ? index_["claims"] : index_;
  for (const auto& [claim, part] : kPartOfClaim) {
    if (part != kIndexPart || !config_.wanted.contains(claim)) continue;
    if (claims.contains(claim) && claims[claim].is_number()) {
      rounds_.Note(claim, claims[claim].get<double>());
    }
  }
}

nlohmann::json BenchRace::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["settings"] = {{"race", config_.race},
                      {"rounds", config_.round_count},
                      {"index_keys", config_.index_key_count},
                      {"cpu_rounds", config_.cpu.round_count},
                      {"cpu_write_records", config_.cpu.write_record_count},
                      {"cpu_read_records", config_.cpu.read_record_count},
                      {"smoke", config_.is_smoke}};
  json["machine"] = DescribeMachine(config_.race.dir);
  json["phases"] = raw_;
  json["index"] = index_;
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
